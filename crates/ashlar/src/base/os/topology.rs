//! Reads the CPUs and NUMA nodes from sysfs. Without /sys, every CPU is on node 0.

use core::ffi::CStr;
use core::fmt::Write;

use super::read_file;
use crate::base::sync::SpinLock;
use crate::base::units::MAX_NODES;

/// The CPUs and nodes of the machine.
#[derive(Clone, Copy)]
pub(crate) struct Topology {
    /// One more than the highest CPU number that can ever appear.
    pub(crate) possible_cpus: u32,
    /// The number of present CPUs, which the slab order rule uses.
    pub(crate) present_cpus: u32,
    /// The number of real NUMA nodes. The allocator counts them from 0 without gaps.
    pub(crate) nodes: u32,
    /// The system's number of each node; there may be gaps.
    pub(crate) node_ids: [u16; MAX_NODES],
}

/// Returns the highest number in a list such as `0-3,8,10-11`.
fn highest_in_list(text: &[u8]) -> Option<u32> {
    let mut highest = None;
    let mut number: Option<u32> = None;
    for &byte in text.iter().chain(b",") {
        if byte.is_ascii_digit() {
            let digit = u32::from(byte - b'0');
            number = Some(number.unwrap_or(0).saturating_mul(10).saturating_add(digit));
        } else if let Some(n) = number.take() {
            highest = highest.max(Some(n));
        }
    }
    highest
}

/// Calls `each` for every number in a list such as `0-3,8`.
fn each_in_list(text: &[u8], mut each: impl FnMut(u32)) {
    let mut start: Option<u32> = None;
    let mut number: Option<u32> = None;
    for &byte in text.iter().chain(b",") {
        match byte {
            b'0'..=b'9' => {
                let digit = u32::from(byte - b'0');
                number = Some(number.unwrap_or(0).saturating_mul(10).saturating_add(digit));
            }
            b'-' => start = number.take(),
            _ => {
                if let Some(last) = number.take() {
                    let first = start.take().unwrap_or(last);
                    for n in first..=last.min(first.saturating_add(1 << 16)) {
                        each(n);
                    }
                }
            }
        }
    }
}

/// The entry of a CPU that no node lists.
const UNLISTED: u8 = u8::MAX;
const _: () = assert!(MAX_NODES <= UNLISTED as usize);

/// The directory in which the system describes its CPUs and nodes. Tests describe another machine.
pub(crate) static SYSTEM: SpinLock<&str> = SpinLock::new("/sys/devices/system");

/// Reads the topology below `root`. Fills `cpu_to_node` for the CPUs it covers. A CPU that no node
/// lists is offline; it gets the node of the first one that is listed.
pub(crate) fn read_topology(root: &str, cpu_to_node: &mut [u8]) -> Topology {
    let mut buf = [0u8; 512];
    let possible = highest_in_list(read_list(root, format_args!("cpu/possible"), &mut buf)).map(|n| n + 1);
    let mut present = 0;
    each_in_list(read_list(root, format_args!("cpu/present"), &mut buf), |_| present += 1);
    // Not by sysconf, because older C libraries open directories for it, and so allocate.
    let (allowed, highest) = crate::base::os::allowed_cpus();
    let present = if present > 0 { present } else { allowed };
    let possible = possible.unwrap_or(0).max(present).max(highest + 1);
    let (mut nodes, mut node_ids) = (0, [0; MAX_NODES]);
    cpu_to_node.fill(UNLISTED);
    each_in_list(read_list(root, format_args!("node/online"), &mut buf), |node| {
        let Some(id) = node_ids.get_mut(nodes) else { return };
        let Ok(number) = u16::try_from(node) else { return };
        *id = number;
        let mut list = [0u8; 512];
        each_in_list(read_list(root, format_args!("node/node{node}/cpulist"), &mut list), |cpu| {
            if let Some(slot) = cpu_to_node.get_mut(cpu as usize) {
                *slot = nodes as u8;
            }
        });
        nodes += 1;
    });
    let first = cpu_to_node.iter().copied().find(|&node| node != UNLISTED).unwrap_or(0);
    cpu_to_node.iter_mut().filter(|node| **node == UNLISTED).for_each(|node| *node = first);
    Topology { possible_cpus: possible, present_cpus: present, nodes: (nodes as u32).max(1), node_ids }
}

/// Returns the text of a file below `root`; empty on any failure.
#[place(cold)]
fn read_list<'a>(root: &str, name: core::fmt::Arguments<'_>, buf: &'a mut [u8]) -> &'a [u8] {
    let mut path = Path { bytes: [0; 256], len: 0 };
    if write!(path, "{root}/{name}").is_err() {
        return &[];
    }
    let Ok(path) = CStr::from_bytes_until_nul(&path.bytes) else { return &[] };
    let len = read_file(path, buf);
    &buf[..len]
}

/// A path built on the stack. A NUL always follows it.
struct Path {
    bytes: [u8; 256],
    len: usize,
}

#[place(cold)]
impl Write for Path {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let end = self.len + text.len();
        if end >= self.bytes.len() {
            return Err(core::fmt::Error);
        }
        self.bytes[self.len..end].copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::prelude::rust_2024::*;

    #[test]
    fn lists_with_gaps_are_read() {
        assert_eq!(highest_in_list(b"0-3,8,10-11\n"), Some(11));
        assert_eq!(highest_in_list(b""), None);
        let mut seen = [0u32; 12];
        each_in_list(b"0-2,8,10-11\n", |n| seen[n as usize] += 1);
        assert_eq!(seen, [1, 1, 1, 0, 0, 0, 0, 0, 1, 0, 1, 1]);
    }

    /// Writes a description of a machine, and returns its root.
    fn described(name: &str, files: &[(&str, &str)]) -> String {
        let root = std::env::temp_dir().join(format!("ashlar-topology-{name}-{}", std::process::id()));
        for (file, text) in files {
            let path = root.join(file);
            std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
            std::fs::write(path, text).expect("a file");
        }
        root.to_str().expect("a path in UTF-8").to_owned()
    }

    #[test]
    fn nodes_are_counted_without_gaps_and_keep_their_numbers() {
        let root = described(
            "sparse",
            &[
                ("cpu/possible", "0-15\n"),
                ("cpu/present", "0-7,12-15\n"),
                ("node/online", "0,8,252-253\n"),
                ("node/node0/cpulist", "0-3\n"),
                ("node/node8/cpulist", "4-7,12\n"),
                // A node without CPUs.
                ("node/node252/cpulist", "\n"),
                ("node/node253/cpulist", "13-15\n"),
            ],
        );
        let mut map = [9u8; 16];
        let t = read_topology(&root, &mut map);
        assert_eq!((t.present_cpus, t.nodes), (12, 4));
        assert!(t.possible_cpus >= 16);
        assert_eq!(&t.node_ids[..4], [0, 8, 252, 253]);
        assert_eq!(map, [0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 3, 3, 3]);
        std::fs::remove_dir_all(root).expect("the directory is removed");
    }

    #[test]
    fn cpus_that_are_offline_do_not_make_a_node_of_memory_one_with_cpus() {
        let root = described(
            "offline",
            &[
                ("cpu/possible", "0-7\n"),
                ("cpu/present", "0-7\n"),
                ("node/online", "0,8\n"),
                ("node/node0/cpulist", "\n"),
                ("node/node8/cpulist", "0-3\n"),
            ],
        );
        let mut map = [9u8; 8];
        let t = read_topology(&root, &mut map);
        assert_eq!((t.nodes, &t.node_ids[..2]), (2, &[0, 8][..]));
        assert_eq!(map, [1; 8]);
        std::fs::remove_dir_all(root).expect("the directory is removed");
    }

    #[test]
    fn a_machine_without_a_description_has_one_node() {
        let mut map = [0u8; 16];
        let t = read_topology("/nowhere/at/all", &mut map);
        assert!(t.possible_cpus >= 1 && t.present_cpus >= 1);
        assert_eq!((t.nodes, t.node_ids[0]), (1, 0));
        let deep = "/x".repeat(200);
        assert_eq!(read_topology(&deep, &mut map).nodes, 1);
    }

    #[test]
    fn this_machine_has_a_cpu_and_a_node() {
        let mut map = [0u8; 64];
        let t = read_topology(*SYSTEM.lock(), &mut map);
        assert!(t.possible_cpus >= 1 && t.present_cpus >= 1 && t.nodes >= 1);
    }
}
