//! The allocator's figures: the functions of C.

use core::ffi::{c_int, c_void};
use core::fmt::{self, Write};

use crate::text::Text;

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

/// The body of `mallinfo2`, under a name that no program replaces.
#[place(cold)]
fn info() -> MallInfo2 {
    let stats = ashlar::stats();
    MallInfo2 {
        arena: stats.held_bytes,
        ordblks: stats.free_objects,
        hblkhd: stats.mapped_bytes,
        uordblks: stats.used_bytes,
        fordblks: stats.held_bytes.saturating_sub(stats.used_bytes),
        keepcost: stats.dirty_bytes,
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
    let stats = ashlar::stats();
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
    writeln!(out, "<total type=\"mmap\" size=\"{}\"/>", stats.mapped_bytes)?;
    writeln!(out, "<total type=\"used\" size=\"{}\"/>", stats.used_bytes)?;
    writeln!(out, "<system type=\"current\" size=\"{}\"/>", stats.held_bytes)?;
    writeln!(out, "<system type=\"metadata\" size=\"{}\"/>", stats.metadata_bytes)?;
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

/// `malloc_stats(3)`: the table of all caches on standard error.
#[unsafe(no_mangle)]
#[place(cold)]
pub extern "C" fn malloc_stats() {
    let _ = ashlar::print_stats(2, false);
}
