//! The text of the figures.

use core::fmt::{self, Write};

use super::stats;
use crate::base::os;
use crate::base::sync::{AtomicUsize, Ordering};
use crate::cache::{AliasInfo, CacheInfo, for_each_alias, for_each_cache, info, registry};
use crate::percpu::{self, Mode};

/// Columns of the name of a cache.
const NAME: usize = 20;

/// A function that returns the number of calls of `dlopen` in which a flag was left out; 0 for
/// none.
static DEEPBIND: AtomicUsize = AtomicUsize::new(0);

/// Registers the function that counts the calls of `dlopen` in which a flag was left out.
#[doc(hidden)]
#[place(cold)]
pub fn set_deepbind_counter(count: fn() -> usize) {
    DEEPBIND.store(count as usize, Ordering::Release);
}

#[expect(unsafe_code, reason = "calls back by a stored address")]
#[place(cold)]
fn deepbind_dropped() -> usize {
    let count = DEEPBIND.load(Ordering::Acquire);
    if count == 0 {
        return 0;
    }
    // SAFETY: only `set_deepbind_counter` stores here, and only values of this function type.
    let count = unsafe { core::mem::transmute::<*const (), fn() -> usize>(core::ptr::with_exposed_provenance(count)) };
    count()
}

/// Text for a file descriptor, built on the stack.
struct Out {
    fd: i32,
    bytes: [u8; 512],
    len: usize,
    error: i32,
}

#[place(cold)]
impl Out {
    fn flush(&mut self) {
        if let Err(error) = os::write_all(self.fd, &self.bytes[..self.len]) {
            self.error = error;
        }
        self.len = 0;
    }
}

#[place(cold)]
impl Write for Out {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for piece in text.as_bytes().chunks(self.bytes.len()) {
            if self.len + piece.len() > self.bytes.len() {
                self.flush();
            }
            self.bytes[self.len..self.len + piece.len()].copy_from_slice(piece);
            self.len += piece.len();
        }
        Ok(())
    }
}

/// Prints the figures to a file descriptor: the table of all caches, the largest first, or one
/// line of JSON. Does not allocate.
///
/// # Errors
/// The number of the system's error, if a write failed.
#[place(cold)]
pub fn print_stats(fd: i32, as_json: bool) -> Result<(), i32> {
    let mut out = Out { fd, bytes: [0; 512], len: 0, error: 0 };
    let _ = if as_json { json(&mut out) } else { table(&mut out) };
    out.flush();
    match out.error {
        0 => Ok(()),
        error => Err(error),
    }
}

/// What the kernel says of this process.
struct Process {
    name: [u8; 16],
    pid: usize,
    rss_kib: usize,
    peak_kib: usize,
}

#[place(cold)]
impl Process {
    /// Reads `/proc/self/status`; without it everything is zero, and the name is empty.
    fn read() -> Process {
        let mut bytes = [0u8; 4096];
        let len = os::read_file(c"/proc/self/status", &mut bytes);
        let lines = || bytes[..len].split(|&byte| byte == b'\n');
        let number = |name: &[u8]| {
            let line = lines().find(|line| line.starts_with(name)).unwrap_or_default();
            let digits = line.iter().filter(|byte| byte.is_ascii_digit());
            digits.fold(0, |n: usize, byte| n.wrapping_mul(10) + usize::from(byte - b'0'))
        };
        let mut process =
            Process { name: [0; 16], pid: number(b"Tgid:"), rss_kib: number(b"VmRSS:"), peak_kib: number(b"VmHWM:") };
        let name = lines().find_map(|line| line.strip_prefix(b"Name:\t")).unwrap_or_default();
        for (to, from) in process.name.iter_mut().zip(name) {
            *to = if from.is_ascii_graphic() && !matches!(from, b'"' | b'\\') { *from } else { b'?' };
        }
        process
    }

    fn name(&self) -> &str {
        let len = self.name.iter().position(|&byte| byte == 0).unwrap_or(self.name.len());
        core::str::from_utf8(&self.name[..len]).unwrap_or("?")
    }
}

fn mode() -> (Mode, bool) {
    (percpu::mode(), crate::faces::malloc::has_fast_paths())
}

#[place(cold)]
fn table(out: &mut impl Write) -> fmt::Result {
    let (total, process) = (stats(), Process::read());
    let (mode, fast) = mode();
    // In the other modes, the name of the mode is enough.
    let paths = if mode == Mode::Rseq && !fast { " (malloc by slow paths)" } else { "" };
    writeln!(out, "ashlar {}: {} ({}), mode {mode}{paths}", crate::VERSION, process.name(), process.pid)?;
    writeln!(
        out,
        "in use {} KiB, held {} KiB, mappings {} KiB, metadata {} KiB",
        total.used_bytes >> 10,
        total.held_bytes >> 10,
        total.mapped_bytes >> 10,
        total.metadata_bytes >> 10
    )?;
    writeln!(out, "RSS {} KiB, peak {} KiB", process.rss_kib, process.peak_kib)?;
    match deepbind_dropped() {
        0 => {}
        times => writeln!(out, "dlopen: RTLD_DEEPBIND left out {times} times")?,
    }
    writeln!(
        out,
        "{:<NAME$} {:>9} {:>9} {:>9} {:>8} {:>9} {:>8}",
        "# name", "KiB", "active", "objects", "objsize", "slabs", "cached"
    )?;
    by_bytes(|cache| row(out, cache))?;
    each_alias(|alias| alias_row(out, alias))
}

#[inline(never)]
#[place(cold)]
fn alias_row(out: &mut impl Write, alias: &AliasInfo) -> fmt::Result {
    writeln!(out, "{:<NAME$} {:>9} {}", Name(alias.name()), "in", Name(alias.cache()))
}

#[inline(never)]
#[place(cold)]
fn row(out: &mut impl Write, cache: &CacheInfo) -> fmt::Result {
    let usage = cache.usage;
    writeln!(
        out,
        "{:<NAME$} {:>9} {:>9} {:>9} {:>8} {:>9} {:>8}",
        Name(cache.name()),
        usage.bytes >> 10,
        usage.live,
        usage.objects,
        cache.object_size,
        usage.slabs,
        usage.cached
    )
}

/// A name in its column: what is longer is cut, and ends in `~`.
struct Name<'a>(&'a str);

#[place(cold)]
impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(NAME) {
            None => f.pad(self.0),
            Some(_) => {
                let cut = self.0.char_indices().nth(NAME - 1).map_or(0, |(at, _)| at);
                write!(f, "{}~", &self.0[..cut])
            }
        }
    }
}

/// Visits every cache without slabs of its own, until a visit fails.
#[place(cold)]
fn each_alias(mut visit: impl FnMut(&AliasInfo) -> fmt::Result) -> fmt::Result {
    let mut result = Ok(());
    for_each_alias(|alias| {
        if result.is_ok() {
            result = visit(alias);
        }
    });
    result
}

/// Visits every cache that has slabs, until a visit fails.
#[place(cold)]
fn each_cache(mut visit: impl FnMut(&CacheInfo) -> fmt::Result) -> fmt::Result {
    let mut result = Ok(());
    for_each_cache(|cache| {
        if result.is_ok() && cache.usage.slabs > 0 {
            result = visit(cache);
        }
    });
    result
}

/// The caches of one walk.
const BATCH: usize = 32;

/// Visits every cache that has slabs, the one with most bytes first, until a visit fails. Walks
/// over all caches for each [`BATCH`] of them, because a list of all would be too long for the
/// stack.
#[place(cold)]
fn by_bytes(mut visit: impl FnMut(&CacheInfo) -> fmt::Result) -> fmt::Result {
    // The order: more bytes first, then the lower index. Both in one number.
    let key = |bytes: usize, index: usize| (bytes as u64) << 16 | (0xffff - (index as u64 & 0xffff));
    let mut below = u64::MAX;
    loop {
        let mut batch = [0u64; BATCH];
        let mut index = 0;
        while let Some(seen) = registry::nth(index, |cache| crate::engine::usage(cache).bytes) {
            let mut new = key(seen.unwrap_or(0), index);
            if seen.unwrap_or(0) > 0 && new < below {
                for place in &mut batch {
                    if *place < new {
                        core::mem::swap(place, &mut new);
                    }
                }
            }
            index += 1;
        }
        for &found in batch.iter().take_while(|&&found| found != 0) {
            below = found;
            let index = 0xffff - (found & 0xffff) as usize;
            if let Some(cache) = registry::nth(index, info::info).flatten() {
                visit(&cache)?;
            }
        }
        if batch[BATCH - 1] == 0 {
            return Ok(());
        }
    }
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

#[place(cold)]
fn json(out: &mut impl Write) -> fmt::Result {
    let (total, process) = (stats(), Process::read());
    let (mode, fast) = mode();
    write!(
        out,
        "{{\"ashlar\":\"{}\",\"name\":\"{}\",\"pid\":{},\"mode\":\"{mode}\",\"fast_paths\":{fast},\"rss_kib\":{},\
         \"peak_kib\":{},\"used_bytes\":{},\"held_bytes\":{},\"mapped_bytes\":{},\"metadata_bytes\":{},\
         \"deepbind_dropped\":{},\"caches\":[",
        crate::VERSION,
        process.name(),
        process.pid,
        process.rss_kib,
        process.peak_kib,
        total.used_bytes,
        total.held_bytes,
        total.mapped_bytes,
        total.metadata_bytes,
        deepbind_dropped()
    )?;
    let mut comma = "";
    each_cache(|cache| json_cache(out, &mut comma, cache))?;
    write!(out, "],\"aliases\":[")?;
    comma = "";
    each_alias(|alias| json_alias(out, &mut comma, alias))?;
    writeln!(out, "]}}")
}

#[inline(never)]
#[place(cold)]
fn json_cache(out: &mut impl Write, comma: &mut &str, cache: &CacheInfo) -> fmt::Result {
    let usage = cache.usage;
    write!(
        out,
        "{comma}{{\"name\":\"{}\",\"bytes\":{},\"active\":{},\"objects\":{},\"objsize\":{},\"objperslab\":{},\
         \"slabs\":{},\"cached\":{}}}",
        Quoted(cache.name()),
        usage.bytes,
        usage.live,
        usage.objects,
        cache.object_size,
        cache.objects_per_slab,
        usage.slabs,
        usage.cached
    )?;
    *comma = ",";
    Ok(())
}

#[inline(never)]
#[place(cold)]
fn json_alias(out: &mut impl Write, comma: &mut &str, alias: &AliasInfo) -> fmt::Result {
    let (name, cache) = (Quoted(alias.name()), Quoted(alias.cache()));
    write!(out, "{comma}{{\"name\":\"{name}\",\"cache\":\"{cache}\",\"objsize\":{}}}", alias.object_size)?;
    *comma = ",";
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CacheArgs, KmemCache};
    use std::prelude::rust_2024::*;

    #[test]
    fn merged_caches_stand_behind_the_table() {
        let [one, two] = ["figures-one", "figures-\"two\""]
            .map(|name| KmemCache::create(name, 1992, &CacheArgs::DEFAULT).expect("a cache"));
        let object = two.alloc().expect("memory");
        let (mut text, mut line) = (String::new(), String::new());
        table(&mut text).expect("strings grow");
        json(&mut line).expect("strings grow");
        // SAFETY: the object was allocated above.
        #[expect(unsafe_code, reason = "frees an object")]
        unsafe {
            two.free(object)
        };
        let row = text.lines().find(|row| row.starts_with("figures-\"two\"")).expect("the alias has a row");
        assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["figures-\"two\"", "in", "figures-one"]);
        assert!(text.lines().any(|row| row.starts_with("figures-one ")), "{text}");
        let aliases = line.split("\"aliases\":").nth(1).expect("a list of aliases");
        assert!(aliases.contains(r#"{"name":"figures-\"two\"","cache":"figures-one","objsize":1992}"#), "{aliases}");
        assert_eq!(one.info().refcount, 2);
    }

    #[test]
    fn the_table_fits_80_columns_and_is_sorted_by_bytes() {
        // More caches than one walk takes.
        let caches: Vec<KmemCache> = (0..BATCH + 9)
            .map(|number| {
                let name = format!("sorted-with-a-rather-long-name-{number}");
                KmemCache::create(&name, 4000, &CacheArgs::DEFAULT.no_merge(true)).expect("a cache")
            })
            .collect();
        let objects: Vec<_> = caches.iter().enumerate().map(|(number, cache)| cache.alloc().map(|_| number)).collect();
        assert!(objects.iter().all(Option::is_some));
        let mut text = String::new();
        table(&mut text).expect("strings grow");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.lines().next().is_some_and(|line| line.contains(&format!("({})", std::process::id()))), "{text}");
        let rows = text.lines().skip_while(|line| !line.starts_with("# name")).skip(1);
        let sizes: Vec<usize> = rows.map_while(|row| row.split_whitespace().nth(1)?.parse().ok()).collect();
        assert!(sizes.len() > BATCH && sizes.is_sorted_by(|one, next| one >= next), "{text}");
        let long = text.lines().filter(|row| row.starts_with("sorted-with-a-rathe~")).count();
        assert_eq!(long, BATCH + 9, "{text}");
    }
}
