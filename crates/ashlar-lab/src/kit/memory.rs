//! Resident memory, as the kernel tells it.

use std::fs;

/// Resident memory of this process that belongs to no file, in KiB.
pub(crate) fn anonymous_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    field("RssAnon:").unwrap_or(0) + field("RssShmem:").unwrap_or(0)
}

/// The number on the line that begins with `key`.
pub(crate) fn kib_line(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.split_whitespace().next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_at_least_what_is_written() {
        let memory = core::hint::black_box(vec![1u8; 4 << 20]);
        assert!(anonymous_kib() >= 4 << 10);
        drop(memory);
    }
}
