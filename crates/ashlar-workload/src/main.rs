//! One process that does fixed work on the malloc that it was started with, and prints what that
//! took as a line of JSON.
//!
//! It finds out whose malloc answers before it works, so that no figure is ever of another
//! allocator than it says.

use core::ffi::CStr;
use core::time::Duration;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ashlar_workload::{Scale, Workload};

const HELP: &str = "\
Does fixed work on the malloc of this process, and prints a line of JSON
(ashlar-lab bench programs starts it)

Usage: ashlar-workload [OPTIONS] NAME

Options:
      --scale F       How much of the usual work, 0.0001 to 100 [default: 1]
      --preload FILE  The library that must serve malloc [default: the C library]
      --idle MS       Sleep so many milliseconds when everything is freed, before
                      resident memory is read
  -h, --help          Print help
  -V, --version       Print version

Workloads (and how many threads allocate at a time):
";

/// Why there is no answer.
#[derive(Debug)]
enum Failure {
    /// Bad input. Exit code 2.
    Usage(String),
    /// Exit code 1.
    Run(String),
}

/// What the command line asks for.
#[derive(Debug, PartialEq)]
struct Args {
    name: String,
    scale: f64,
    preload: Option<PathBuf>,
    idle: Option<u64>,
}

/// What stands on the command line.
#[derive(Debug, PartialEq)]
enum Asked {
    Work(Args),
    Help,
    Version,
}

fn main() -> ExitCode {
    let done = parse(std::env::args_os().skip(1)).and_then(|asked| match asked {
        Asked::Work(args) => work(&args),
        Asked::Help => help(),
        Asked::Version => print(concat!("ashlar-workload ", env!("CARGO_PKG_VERSION"), "\n")),
    });
    let (error, code) = match done {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Usage(error)) => (error, 2),
        Err(Failure::Run(error)) => (error, 1),
    };
    eprintln!("ashlar-workload: {error}");
    ExitCode::from(code)
}

fn parse(args: impl Iterator<Item = OsString>) -> Result<Asked, Failure> {
    let usage = |text: String| Failure::Usage(text);
    let mut found = Args { name: String::new(), scale: 1.0, preload: None, idle: None };
    let mut args = args.peekable();
    while let Some(arg) = args.next() {
        let word = arg.to_string_lossy().into_owned();
        let mut value = |what: &str| args.next().ok_or_else(|| usage(format!("{word}: no value, expected {what}")));
        match &*word {
            "-h" | "--help" => return Ok(Asked::Help),
            "-V" | "--version" => return Ok(Asked::Version),
            "--scale" => {
                let expected = "a number from 0.0001 to 100";
                let text = value(expected)?.to_string_lossy().into_owned();
                let number = text.parse().ok().filter(|scale| (0.0001..=100.0).contains(scale));
                found.scale = number.ok_or_else(|| usage(format!("--scale: `{text}`, expected {expected}")))?;
            }
            "--idle" => {
                let expected = "a number of milliseconds";
                let text = value(expected)?.to_string_lossy().into_owned();
                let number = text.parse().map_err(|_| usage(format!("--idle: `{text}`, expected {expected}")))?;
                found.idle = Some(number);
            }
            "--preload" => found.preload = Some(value("a library")?.into()),
            option if option.starts_with('-') => {
                return Err(usage(format!("{option}: unknown option, expected --scale, --preload or --idle")));
            }
            _ if found.name.is_empty() => found.name = word,
            _ => return Err(usage(format!("NAME: `{word}` is a second one, expected one workload"))),
        }
    }
    if found.name.is_empty() { Err(unknown("")) } else { Ok(Asked::Work(found)) }
}

/// The name is not one of a workload.
fn unknown(name: &str) -> Failure {
    let names: Vec<_> = Workload::all().map(|workload| workload.name).collect();
    Failure::Usage(format!("NAME: `{name}`, expected one of {}", names.join(", ")))
}

fn help() -> Result<(), Failure> {
    let lines = Workload::all().map(|work| format!("  {:<15} {}  {}\n", work.name, work.threads, work.what));
    print(&(HELP.to_owned() + &lines.collect::<String>()))
}

/// Writes to standard output; the reader may be gone.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::Run(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Does the work and prints, as one line: the checksum; the most resident memory that the process
/// had (`VmHWM`); the same without pages of files, which is what malloc, the stacks and the data
/// took; resident memory after everything was freed and the process slept, or null if it was not
/// to.
fn work(args: &Args) -> Result<(), Failure> {
    let workload = Workload::by_name(&args.name).ok_or_else(|| unknown(&args.name))?;
    check_malloc(args.preload.as_deref())?;
    let checksum = workload.run(Scale::new(args.scale));
    let idle = args.idle.map_or_else(
        || "null".to_owned(),
        |millis| {
            // The sign that the work is done, so that others may begin.
            let _ = print("idle\n");
            std::thread::sleep(Duration::from_millis(millis));
            resident_kib().to_string()
        },
    );
    let peak = status_kib("VmHWM:");
    let anonymous = peak.saturating_sub(status_kib("RssFile:") + status_kib("RssShmem:"));
    print(&format!(
        "{{\"checksum\":\"{checksum:016x}\",\"peak_rss_kib\":{peak},\"peak_anon_kib\":{anonymous},\"idle_rss_kib\":{idle}}}\n"
    ))
}

/// An error unless malloc is that of `library`, or that of the C library if none is named.
fn check_malloc(library: Option<&Path>) -> Result<(), Failure> {
    let serves = malloc_file()?;
    let right = match library {
        Some(library) => match (library.canonicalize(), serves.canonicalize()) {
            (Ok(wanted), Ok(found)) => wanted == found,
            _ => false,
        },
        None => serves.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libc.")),
    };
    if right {
        return Ok(());
    }
    let wanted = library.map_or("the C library".into(), Path::to_string_lossy);
    Err(Failure::Run(format!("the preload has no effect: malloc is served by {}, expected {wanted}", serves.display())))
}

/// The file that the dynamic symbol `malloc` comes from.
fn malloc_file() -> Result<PathBuf, Failure> {
    use std::os::unix::ffi::OsStrExt;
    let unknown = || Failure::Run("cannot find out which library serves malloc".to_owned());
    // SAFETY: the name ends with a zero byte; the default handle needs nothing to be open.
    let malloc = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"malloc".as_ptr()) };
    let mut info = libc::Dl_info {
        dli_fname: core::ptr::null(),
        dli_fbase: core::ptr::null_mut(),
        dli_sname: core::ptr::null(),
        dli_saddr: core::ptr::null_mut(),
    };
    // SAFETY: dladdr takes any address and fills `info` if it lies in a loaded object.
    if malloc.is_null() || unsafe { libc::dladdr(malloc, &raw mut info) } == 0 || info.dli_fname.is_null() {
        return Err(unknown());
    }
    // SAFETY: dladdr succeeded, so this is the name of a loaded object, which stays loaded.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Ok(std::ffi::OsStr::from_bytes(name.to_bytes()).into())
}

/// A figure of /proc/self/status in KiB, or 0 where that cannot be read.
fn status_kib(key: &str) -> u64 {
    kib_line(&std::fs::read_to_string("/proc/self/status").unwrap_or_default(), key).unwrap_or(0)
}

/// Resident memory now. The roll-up of the mappings is exact; other files count with a tolerance
/// for each CPU.
fn resident_kib() -> u64 {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    kib_line(&rollup, "Rss:").unwrap_or_else(|| status_kib("VmRSS:"))
}

/// The number on the line that begins with `key`.
fn kib_line(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.split_whitespace().next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Result<Asked, Failure> {
        parse(text.split_whitespace().map(OsString::from))
    }

    #[test]
    fn options_stand_anywhere_and_bad_ones_are_named() {
        let args = Args { name: "words".to_owned(), scale: 0.5, preload: Some("/lib/x.so".into()), idle: Some(9) };
        assert_eq!(words("--scale 0.5 words --preload /lib/x.so --idle 9").unwrap(), Asked::Work(args));
        assert_eq!(words("words --help").unwrap(), Asked::Help);
        for (bad, told) in [
            ("words --scale 0", "--scale: `0`, expected a number from 0.0001 to 100"),
            ("words --idle", "--idle: no value, expected a number of milliseconds"),
            ("words --fast", "--fast: unknown option, expected --scale"),
            ("words sets", "NAME: `sets` is a second one"),
            ("", "NAME: ``, expected one of numbers"),
        ] {
            let Err(Failure::Usage(error)) = words(bad) else { panic!("{bad} is taken") };
            assert!(error.starts_with(told), "{bad}: {error}");
        }
    }

    #[test]
    fn malloc_of_the_tests_is_the_c_librarys() {
        check_malloc(None).unwrap();
        let error = check_malloc(Some(Path::new("/lib/libother.so"))).unwrap_err();
        let Failure::Run(error) = error else { panic!("{error:?}") };
        assert!(error.contains("no effect") && error.contains("libother"), "{error}");
    }

    #[test]
    fn resident_memory_is_known() {
        assert!(resident_kib() > 100 && status_kib("VmHWM:") > 100);
        assert_eq!(kib_line("A: 1\nRss:   12 kB\n", "Rss:"), Some(12));
    }
}
