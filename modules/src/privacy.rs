//! Protects this process's memory and descriptors from other processes of the same user.

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// Makes this process non-dumpable: no process of its user can trace it, read its memory, list `/proc/PID/fd` or take a
/// descriptor with `pidfd_getfd`; only root still can. The kernel writes no core dump of such a process either,
/// whatever `RLIMIT_CORE` and `core_pattern` say.
///
/// Must be the first call in `main`, before anything secret is read. It does not affect programs started later:
/// `execve` makes a process dumpable again, after closing the descriptors marked close-on-exec. The time between
/// `execve` and this call is covered where it matters by a file that its user cannot read, see `become_user::copy`.
pub fn refuse_inspection() {
    // Fails only on kernels without this feature, where no alternative exists.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}
