//! Keeping this process's memory and descriptors from other processes of the same user.

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// Makes this process non-dumpable: no process of its user can trace it, read its memory, list `/proc/PID/fd` or take a descriptor with
/// `pidfd_getfd`; only root still can. The kernel writes no core dump of such a process either, whatever `RLIMIT_CORE` and `core_pattern` say.
///
/// Call it first thing in `main`, before anything secret is read. Programs that are started later are not affected: `execve` makes a process
/// dumpable again, after the descriptors marked close-on-exec are closed. The time between `execve` and this call is covered where it matters
/// by a file that its user cannot read, see `become_user::copy`.
pub fn refuse_inspection() {
    // Fails only on kernels that know no such behaviour, and there nothing else could be done.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}
