//! Resident memory, as the kernel tells it.

use std::fs;
use std::io::Read;

/// Resident memory of this process that belongs to no file, in KiB.
pub(crate) fn anonymous_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    field("RssAnon:").unwrap_or(0) + field("RssShmem:").unwrap_or(0)
}

/// Resident memory of this process in KiB, pages of files included. Uses no memory of an allocator,
/// so that a system under test, which may be this process's malloc, is not disturbed. Kernels that
/// count pages in batches for each CPU may be off by such a batch, 32 pages or more.
pub(crate) fn resident_kib() -> Option<i64> {
    let mut text = [0; 128];
    let length = fs::File::open("/proc/self/statm").and_then(|mut file| file.read(&mut text)).ok()?;
    // SAFETY: takes a number, returns one.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    Some(resident_pages(&text[..length])? * page / 1024)
}

/// The second figure of `statm`.
fn resident_pages(statm: &[u8]) -> Option<i64> {
    core::str::from_utf8(statm).ok()?.split_whitespace().nth(1)?.parse().ok()
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
        assert!(resident_kib().is_some_and(|kib| kib >= 4 << 10));
        drop(memory);
    }

    #[test]
    fn resident_pages_are_the_second_figure() {
        assert_eq!(resident_pages(b"1234 567 89 1 0 22 0\n"), Some(567));
        assert_eq!(resident_pages(b"1234"), None);
    }
}
