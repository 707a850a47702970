package apiv1

// The Frame of each message that a session carries is the message as the body of a frame, which the sender's link numbers.

func (m *Open) Frame() *Frame         { return &Frame{Body: &Frame_Open{Open: m}} }
func (m *Launch) Frame() *Frame       { return &Frame{Body: &Frame_Launch{Launch: m}} }
func (m *Input) Frame() *Frame        { return &Frame{Body: &Frame_Input{Input: m}} }
func (m *Signal) Frame() *Frame       { return &Frame{Body: &Frame_Signal{Signal: m}} }
func (m *Stop) Frame() *Frame         { return &Frame{Body: &Frame_Stop{Stop: m}} }
func (m *Resize) Frame() *Frame       { return &Frame{Body: &Frame_Resize{Resize: m}} }
func (m *FenceResult) Frame() *Frame  { return &Frame{Body: &Frame_FenceResult{FenceResult: m}} }
func (m *NameResult) Frame() *Frame   { return &Frame{Body: &Frame_NameResult{NameResult: m}} }
func (m *Bye) Frame() *Frame          { return &Frame{Body: &Frame_Bye{Bye: m}} }
func (m *SpawnResult) Frame() *Frame  { return &Frame{Body: &Frame_SpawnResult{SpawnResult: m}} }
func (m *Gone) Frame() *Frame         { return &Frame{Body: &Frame_Gone{Gone: m}} }
func (m *CopyData) Frame() *Frame     { return &Frame{Body: &Frame_CopyData{CopyData: m}} }
func (m *JobOver) Frame() *Frame      { return &Frame{Body: &Frame_JobOver{JobOver: m}} }
func (m *AbortNoted) Frame() *Frame   { return &Frame{Body: &Frame_AbortNoted{AbortNoted: m}} }
func (m *AskWaits) Frame() *Frame     { return &Frame{Body: &Frame_AskWaits{AskWaits: m}} }
func (m *Proceed) Frame() *Frame      { return &Frame{Body: &Frame_Proceed{Proceed: m}} }
func (m *Opened) Frame() *Frame       { return &Frame{Body: &Frame_Opened{Opened: m}} }
func (m *Started) Frame() *Frame      { return &Frame{Body: &Frame_Started{Started: m}} }
func (m *StartFailed) Frame() *Frame  { return &Frame{Body: &Frame_StartFailed{StartFailed: m}} }
func (m *Output) Frame() *Frame       { return &Frame{Body: &Frame_Output{Output: m}} }
func (m *OutputEnd) Frame() *Frame    { return &Frame{Body: &Frame_OutputEnd{OutputEnd: m}} }
func (m *Exited) Frame() *Frame       { return &Frame{Body: &Frame_Exited{Exited: m}} }
func (m *FenceEnter) Frame() *Frame   { return &Frame{Body: &Frame_FenceEnter{FenceEnter: m}} }
func (m *NameRequest) Frame() *Frame  { return &Frame{Body: &Frame_NameRequest{NameRequest: m}} }
func (m *Aborted) Frame() *Frame      { return &Frame{Body: &Frame_Aborted{Aborted: m}} }
func (m *Notice) Frame() *Frame       { return &Frame{Body: &Frame_Notice{Notice: m}} }
func (m *Ending) Frame() *Frame       { return &Frame{Body: &Frame_Ending{Ending: m}} }
func (m *Closed) Frame() *Frame       { return &Frame{Body: &Frame_Closed{Closed: m}} }
func (m *WireupFailed) Frame() *Frame { return &Frame{Body: &Frame_WireupFailed{WireupFailed: m}} }
func (m *SpawnRequest) Frame() *Frame { return &Frame{Body: &Frame_SpawnRequest{SpawnRequest: m}} }
func (m *Chosen) Frame() *Frame       { return &Frame{Body: &Frame_Chosen{Chosen: m}} }
func (m *CopyCredit) Frame() *Frame   { return &Frame{Body: &Frame_CopyCredit{CopyCredit: m}} }
func (m *Control) Frame() *Frame      { return &Frame{Body: &Frame_Control{Control: m}} }
func (m *Waits) Frame() *Frame        { return &Frame{Body: &Frame_Waits{Waits: m}} }
func (m *Met) Frame() *Frame          { return &Frame{Body: &Frame_Met{Met: m}} }
func (m *Activity) Frame() *Frame     { return &Frame{Body: &Frame_Activity{Activity: m}} }
func (m *Credit) Frame() *Frame       { return &Frame{Body: &Frame_Credit{Credit: m}} }
func (m *Heartbeat) Frame() *Frame    { return &Frame{Body: &Frame_Heartbeat{Heartbeat: m}} }
func (m *FetchRequest) Frame() *Frame { return &Frame{Body: &Frame_FetchRequest{FetchRequest: m}} }
func (m *FetchResult) Frame() *Frame  { return &Frame{Body: &Frame_FetchResult{FetchResult: m}} }
func (m *Event) Frame() *Frame        { return &Frame{Body: &Frame_Event{Event: m}} }
func (m *Rendezvous) Frame() *Frame   { return &Frame{Body: &Frame_Rendezvous{Rendezvous: m}} }
