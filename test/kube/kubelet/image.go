package kubelet

// Image is what a container's image brings along. Everything else in a container's file system is
// this machine's, but for an empty /usr/local/bin and all outside of /usr, /var and their like.
type Image struct {
	// Files are the image's own, each with the file or directory of this machine that it is. They
	// can lie where volumes can. What is not in [Config.Shared] is a directory that hosts see, and read-only.
	Files map[string]string
	// Without are programs that cannot be executed in the image although this machine has them.
	Without []string
	// Env is the image's, over a PATH of the usual directories.
	Env []string
	// Entrypoint and Cmd are used where the container has no command or args.
	Entrypoint, Cmd []string
	// User runs the image where the pod does not say who; 0 is root.
	User int64
}

// argv is the command of a container (docs: "Define a Command and Arguments for a Container"): its
// command is in place of the image's entrypoint and of its arguments.
func (i Image) argv(command, args []string) []string {
	if len(command) == 0 {
		command = i.Entrypoint
		if len(args) == 0 {
			args = i.Cmd
		}
	}
	return append(append([]string{}, command...), args...)
}
