//! What the descriptors of a process refer to, by `proc(5)`: a path, a pipe, or the addresses of a
//! socket.

use std::collections::{HashMap, HashSet};
use std::fs;

use crate::sockets;

/// Returns what descriptors refer to, by their numbers. Those that are closed are missing.
pub(crate) fn targets(pid: i32, numbers: &HashSet<i32>) -> HashMap<i32, String> {
    let read = |number: &i32| {
        let link = fs::read_link(format!("/proc/{pid}/fd/{number}")).ok()?;
        // A file may have any name.
        let target = link.to_string_lossy().replace(char::is_control, "?");
        Some((*number, target))
    };
    let mut targets: HashMap<_, _> = numbers.iter().filter_map(read).collect();
    let inodes: HashSet<_> = targets.values().filter_map(|link| inode(link)).collect();
    let sockets = sockets::find(pid, &inodes);
    for target in targets.values_mut() {
        if let Some(socket) = inode(target).and_then(|inode| sockets.get(&inode)) {
            target.clone_from(socket);
        }
    }
    targets
}

/// Returns the number by which the kernel's tables name a socket.
fn inode(link: &str) -> Option<u64> {
    let number = link.strip_prefix("socket:[")?.strip_suffix(']')?;
    number.parse().ok()
}
