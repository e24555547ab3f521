//! The allocator's figures: the functions of C, and the table that `ASHLAR_STATS` prints at exit.

use core::ffi::{c_int, c_void};
use core::fmt::{self, Write};

use syscalls::{Sysno, syscall};

use crate::text::{Text, to_fd};

const PAGE: usize = 4096;

/// C's `struct mallinfo2`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct MallInfo2 {
    /// Bytes taken from the system, without mappings of single objects.
    pub arena: usize,
    /// Free objects, in sheaves and on partial slabs.
    pub ordblks: usize,
    /// 0: there are no fastbins.
    pub smblks: usize,
    /// 0: mappings are not counted.
    pub hblks: usize,
    /// Bytes in mappings of single objects.
    pub hblkhd: usize,
    /// 0, as with glibc.
    pub usmblks: usize,
    /// 0: there are no fastbins.
    pub fsmblks: usize,
    /// Bytes in use, without mappings of single objects: programs add `hblkhd`, as with glibc.
    pub uordblks: usize,
    /// Bytes of `arena` that are free.
    pub fordblks: usize,
    /// The least bytes that `malloc_trim` returns to the system.
    pub keepcost: usize,
}

/// C's `struct mallinfo`: the same in `int`s. Larger values become the largest `int`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct MallInfo([c_int; 10]);

struct Totals {
    /// Bytes of objects in use, large ones included.
    used: usize,
    free_objects: usize,
    /// Pages taken from the system and not returned.
    held_pages: usize,
    dirty_pages: usize,
    direct: usize,
    metadata: usize,
}

#[place(cold)]
fn totals() -> Totals {
    let (mut used, mut free_objects, mut slab_pages) = (0, 0, 0);
    ashlar::for_each_cache(|cache| {
        used += cache.usage.live * cache.object_size;
        free_objects += cache.usage.objects.saturating_sub(cache.usage.live);
        slab_pages += cache.usage.bytes / PAGE;
    });
    let zone = ashlar::zone_stats();
    let large_pages = (zone.committed - zone.free).saturating_sub(slab_pages);
    Totals {
        used: used + large_pages * PAGE,
        free_objects,
        held_pages: zone.committed - zone.free + zone.dirty,
        dirty_pages: zone.dirty,
        direct: ashlar::direct_bytes(),
        metadata: ashlar::metadata_bytes(),
    }
}

/// The body of `mallinfo2`, under a name that no program replaces.
fn info() -> MallInfo2 {
    let t = totals();
    let arena = t.held_pages * PAGE;
    MallInfo2 {
        arena,
        ordblks: t.free_objects,
        hblkhd: t.direct,
        uordblks: t.used,
        fordblks: arena.saturating_sub(t.used),
        keepcost: t.dirty_pages * PAGE,
        ..MallInfo2::default()
    }
}

/// `mallinfo2(3)`.
#[unsafe(no_mangle)]
#[place(cold)]
pub extern "C" fn mallinfo2() -> MallInfo2 {
    info()
}

/// `mallinfo(3)`.
#[unsafe(no_mangle)]
#[place(cold)]
pub extern "C" fn mallinfo() -> MallInfo {
    info_in_ints()
}

/// glibc's own name of [`mallinfo`].
#[unsafe(no_mangle)]
#[place(cold)]
pub extern "C" fn __libc_mallinfo() -> MallInfo {
    info_in_ints()
}

fn info_in_ints() -> MallInfo {
    let i = info();
    let fields =
        [i.arena, i.ordblks, i.smblks, i.hblks, i.hblkhd, i.usmblks, i.fsmblks, i.uordblks, i.fordblks, i.keepcost];
    MallInfo(fields.map(|n| c_int::try_from(n).unwrap_or(c_int::MAX)))
}

/// `malloc_info(3)`: an XML document on `stream`; returns 0, or `EINVAL` for options other than 0.
///
/// # Safety
/// `stream` is an open `FILE`.
#[unsafe(no_mangle)]
#[place(cold)]
pub unsafe extern "C" fn malloc_info(options: c_int, stream: *mut c_void) -> c_int {
    if options != 0 {
        return libc::EINVAL;
    }
    let mut out = Text::new(|bytes: &[u8]| {
        // SAFETY: the buffer is readable for its length, and the caller guarantees that the stream
        // is open.
        unsafe { libc::fwrite(bytes.as_ptr().cast(), 1, bytes.len(), stream.cast()) };
    });
    let _ = xml(&mut out);
    out.flush();
    0
}

fn xml(out: &mut impl Write) -> fmt::Result {
    let t = totals();
    writeln!(out, "<malloc version=\"ashlar-1\">")?;
    each_cache(|cache| {
        let u = cache.usage;
        writeln!(
            out,
            "<cache name=\"{}\" size=\"{}\" live=\"{}\" objects=\"{}\" cached=\"{}\" slabs=\"{}\" bytes=\"{}\"/>",
            cache.name(),
            cache.object_size,
            u.live,
            u.objects,
            u.cached,
            u.slabs,
            u.bytes
        )
    })?;
    writeln!(out, "<total type=\"mmap\" size=\"{}\"/>", t.direct)?;
    writeln!(out, "<total type=\"used\" size=\"{}\"/>", t.used)?;
    writeln!(out, "<system type=\"current\" size=\"{}\"/>", t.held_pages * PAGE)?;
    writeln!(out, "<system type=\"metadata\" size=\"{}\"/>", t.metadata)?;
    writeln!(out, "<mode>{}</mode>", ashlar::malloc::mode())?;
    writeln!(out, "</malloc>")
}

/// Visits every cache that has slabs, until a visit fails.
fn each_cache(mut visit: impl FnMut(&ashlar::CacheInfo) -> fmt::Result) -> fmt::Result {
    let mut result = Ok(());
    ashlar::for_each_cache(|cache| {
        if result.is_ok() && cache.usage.slabs > 0 {
            result = visit(cache);
        }
    });
    result
}

/// Visits every cache without slabs of its own, until a visit fails. [`each_cache`] does not visit
/// these.
fn each_alias(mut visit: impl FnMut(&ashlar::AliasInfo) -> fmt::Result) -> fmt::Result {
    let mut result = Ok(());
    ashlar::for_each_alias(|alias| {
        if result.is_ok() {
            result = visit(alias);
        }
    });
    result
}

/// `malloc_stats(3)`: the table of all caches on standard error.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_stats() {
    print(2, false);
}

/// Returns VmRSS and VmHWM of the process in KiB, from /proc; 0 without /proc.
#[place(cold)]
fn resident() -> (usize, usize) {
    let mut bytes = [0u8; 4096];
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: the path is NUL-terminated, the buffer is writable for its length, and the descriptor
    // comes from the first call.
    let len = unsafe {
        let Ok(file) = syscall!(Sysno::openat, libc::AT_FDCWD, c"/proc/self/status".as_ptr(), flags, 0) else {
            return (0, 0);
        };
        let got = syscall!(Sysno::read, file, bytes.as_mut_ptr(), bytes.len());
        let _ = syscall!(Sysno::close, file);
        got.unwrap_or(0)
    };
    let field = |name: &[u8]| {
        let line = bytes[..len].split(|&b| b == b'\n').find(|line| line.starts_with(name));
        line.map_or(0, |line| {
            line.iter().filter(|b| b.is_ascii_digit()).fold(0, |n: usize, b| n * 10 + usize::from(b - b'0'))
        })
    };
    (field(b"VmRSS:"), field(b"VmHWM:"))
}

/// Returns the number of calls of `dlopen` in which a flag was removed.
fn deepbind_dropped() -> usize {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    return crate::deepbind::dropped();
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    0
}

/// Prints the table, as text or as one line of JSON.
#[place(cold)]
pub(crate) fn print(fd: c_int, as_json: bool) {
    let mut out = Text::new(|bytes: &[u8]| to_fd(fd, bytes));
    let _ = if as_json { json(&mut out) } else { table(&mut out) };
    out.flush();
}

fn table(out: &mut impl Write) -> fmt::Result {
    let t = totals();
    let (rss, peak) = resident();
    let mode = ashlar::malloc::mode();
    // In the other modes, the name of the mode is enough.
    let paths =
        if mode == ashlar::Mode::Rseq && !ashlar::malloc::has_fast_paths() { " (malloc by slow paths)" } else { "" };
    writeln!(out, "ashlar {}: mode {mode}{paths}, RSS {rss} KiB, peak {peak} KiB", ashlar::VERSION)?;
    writeln!(
        out,
        "in use {} KiB, held {} KiB, mappings {} KiB, metadata {} KiB",
        t.used >> 10,
        (t.held_pages * PAGE) >> 10,
        t.direct >> 10,
        t.metadata >> 10
    )?;
    match deepbind_dropped() {
        0 => {}
        times => writeln!(out, "dlopen: RTLD_DEEPBIND left out {times} times")?,
    }
    writeln!(
        out,
        "{:<24} {:>10} {:>10} {:>8} {:>10} {:>8} {:>8}",
        "# name", "active", "objects", "objsize", "objperslab", "slabs", "cached"
    )?;
    each_cache(|cache| {
        let u = cache.usage;
        writeln!(
            out,
            "{:<24} {:>10} {:>10} {:>8} {:>10} {:>8} {:>8}",
            cache.name(),
            u.live,
            u.objects,
            cache.object_size,
            cache.objects_per_slab,
            u.slabs,
            u.cached
        )
    })?;
    each_alias(|alias| writeln!(out, "{:<24} {:>10} {}", alias.name(), "in", alias.cache()))
}

/// A cache name, escaped for a JSON string. Creation refuses control characters.
struct Quoted<'a>(&'a str);

#[place(cold)]
impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            if matches!(c, '"' | '\\') {
                f.write_char('\\')?;
            }
            f.write_char(c)?;
        }
        Ok(())
    }
}

fn json(out: &mut impl Write) -> fmt::Result {
    let t = totals();
    let (rss, peak) = resident();
    write!(
        out,
        "{{\"ashlar\":\"{}\",\"mode\":\"{}\",\"fast_paths\":{},\"rss_kib\":{rss},\"peak_kib\":{peak},\"used_bytes\":{},\"held_bytes\":{},\
         \"mapped_bytes\":{},\"metadata_bytes\":{},\"deepbind_dropped\":{},\"caches\":[",
        ashlar::VERSION,
        ashlar::malloc::mode(),
        ashlar::malloc::has_fast_paths(),
        t.used,
        t.held_pages * PAGE,
        t.direct,
        t.metadata,
        deepbind_dropped()
    )?;
    let mut comma = "";
    each_cache(|cache| {
        let u = cache.usage;
        write!(
            out,
            "{comma}{{\"name\":\"{}\",\"active\":{},\"objects\":{},\"objsize\":{},\"objperslab\":{},\"slabs\":{},\
             \"cached\":{}}}",
            Quoted(cache.name()),
            u.live,
            u.objects,
            cache.object_size,
            cache.objects_per_slab,
            u.slabs,
            u.cached
        )?;
        comma = ",";
        Ok(())
    })?;
    write!(out, "],\"aliases\":[")?;
    comma = "";
    each_alias(|alias| {
        let (name, cache) = (Quoted(alias.name()), Quoted(alias.cache()));
        write!(out, "{comma}{{\"name\":\"{name}\",\"cache\":\"{cache}\",\"objsize\":{}}}", alias.object_size)?;
        comma = ",";
        Ok(())
    })?;
    writeln!(out, "]}}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::prelude::rust_2024::*;

    #[test]
    fn merged_caches_stand_behind_the_table() {
        let args = ashlar::CacheArgs::DEFAULT;
        let [one, two] = ["figures-one", "figures-\"two\""].map(|name| ashlar::KmemCache::create(name, 200, &args));
        let (one, two) = (one.expect("a cache"), two.expect("a cache"));
        let object = two.alloc().expect("memory");
        let (mut text, mut line) = (String::new(), String::new());
        table(&mut text).expect("strings grow");
        json(&mut line).expect("strings grow");
        // SAFETY: the object was allocated above.
        unsafe { two.free(object) };
        let row = text.lines().find(|row| row.starts_with("figures-\"two\"")).expect("the alias has a row");
        assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["figures-\"two\"", "in", "figures-one"]);
        assert!(text.lines().any(|row| row.starts_with("figures-one ")), "{text}");
        let aliases = line.split("\"aliases\":").nth(1).expect("a list of aliases");
        assert!(aliases.contains(r#"{"name":"figures-\"two\"","cache":"figures-one","objsize":200}"#), "{aliases}");
        assert_eq!(one.info().refcount, 2);
    }
}
