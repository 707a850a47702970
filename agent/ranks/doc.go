// Package ranks is one job's part on this host, from its Launch to the end of its output.
//
//	Launch ──▶ files copied ──▶ programs looked at ──▶ outfit chosen, servers made ──▶ the launcher's word ──▶ processes
//	process: start ──▶ running ──process ends──▶ Exited sent ──pipes drained──▶ OutputEnd sent
//
// A Job starts its processes in order and tells the launcher of each; the first that cannot be started ends the
// attempt. What the jobs of one session have in common is Shared, made by the session; what a job wants of its session
// is the interface Session.
//
// Processes are named by their rank in the job here, and by their id in the run in frames.
//
// Concurrency: New only builds. Start runs on a goroutine of the session's, which calls Wait before it forgets the job;
// all other methods may be called by several goroutines meanwhile.
//
// It decides nothing of other hosts' ranks, knows neither link nor lease, and never imports the session.
package ranks
