//! CPUs and NUMA nodes as the system tells them. Works without /sys: then every CPU is on node 0.

use super::read_file;
use crate::units::MAX_NODES;

/// What the machine looks like.
#[derive(Clone, Copy)]
pub(crate) struct Topology {
    /// One more than the highest CPU number that can ever appear.
    pub(crate) possible_cpus: u32,
    /// CPUs that are there now: the number that the slab order rule uses.
    pub(crate) present_cpus: u32,
    /// Real NUMA nodes.
    pub(crate) nodes: u32,
}

/// The highest number in a list such as `0-3,8,10-11`.
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

/// Reads the topology; fills `cpu_to_node` for the CPUs it covers.
pub(crate) fn read_topology(cpu_to_node: &mut [u8]) -> Topology {
    let mut buf = [0u8; 512];
    let len = read_file(c"/sys/devices/system/cpu/possible", &mut buf);
    let possible = highest_in_list(&buf[..len]).map(|n| n + 1);
    let len = read_file(c"/sys/devices/system/cpu/present", &mut buf);
    let mut present = 0;
    each_in_list(&buf[..len], |_| present += 1);
    // Not by sysconf, which in older C libraries opens directories and so allocates.
    let (allowed, highest) = crate::os::allowed_cpus();
    let present = if present > 0 { present } else { allowed };
    let possible = possible.unwrap_or(0).max(present).max(highest + 1);
    let len = read_file(c"/sys/devices/system/node/online", &mut buf);
    let mut nodes = 0u32;
    let mut online = [0u8; 512];
    online[..len].copy_from_slice(&buf[..len]);
    each_in_list(&online[..len], |node| {
        if nodes as usize >= MAX_NODES {
            return;
        }
        let mut path = *b"/sys/devices/system/node/node0000/cpulist\0";
        let Some(path) = node_path(&mut path, node) else { return };
        let mut list = [0u8; 512];
        let len = read_file(path, &mut list);
        each_in_list(&list[..len], |cpu| {
            if let Some(slot) = cpu_to_node.get_mut(cpu as usize) {
                *slot = nodes as u8;
            }
        });
        nodes += 1;
    });
    Topology { possible_cpus: possible, present_cpus: present, nodes: nodes.max(1) }
}

/// Writes `/sys/devices/system/node/node<N>/cpulist` into `buf`.
fn node_path(buf: &mut [u8], node: u32) -> Option<&core::ffi::CStr> {
    let mut digits = [0u8; 10];
    let mut n = node;
    let mut count = 0;
    loop {
        digits[count] = b'0' + (n % 10) as u8;
        count += 1;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    let prefix = b"/sys/devices/system/node/node";
    let suffix = b"/cpulist\0";
    if prefix.len() + count + suffix.len() > buf.len() {
        return None;
    }
    buf[..prefix.len()].copy_from_slice(prefix);
    for i in 0..count {
        buf[prefix.len() + i] = digits[count - 1 - i];
    }
    let end = prefix.len() + count + suffix.len();
    buf[prefix.len() + count..end].copy_from_slice(suffix);
    core::ffi::CStr::from_bytes_with_nul(&buf[..end]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_with_gaps_are_read() {
        assert_eq!(highest_in_list(b"0-3,8,10-11\n"), Some(11));
        assert_eq!(highest_in_list(b""), None);
        let mut seen = [0u32; 12];
        each_in_list(b"0-2,8,10-11\n", |n| seen[n as usize] += 1);
        assert_eq!(seen, [1, 1, 1, 0, 0, 0, 0, 0, 1, 0, 1, 1]);
    }

    #[test]
    fn node_paths_are_built() {
        let mut buf = [0u8; 48];
        assert_eq!(node_path(&mut buf, 12).unwrap(), c"/sys/devices/system/node/node12/cpulist");
    }

    #[test]
    fn this_machine_has_a_cpu_and_a_node() {
        let mut map = [0u8; 64];
        let t = read_topology(&mut map);
        assert!(t.possible_cpus >= 1 && t.present_cpus >= 1 && t.nodes >= 1);
    }
}
