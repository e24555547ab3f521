//! The library exports C's names and none of the kernel's, because a program may have a `kmalloc`
//! of its own. It needs no library but the C library.

mod common;

use common::{archive, library};
use std::process::Command;

/// Returns the output of a tool.
fn said(command: &mut Command) -> String {
    let out = command.output().expect("the tool comes with the compiler");
    String::from_utf8(out.stdout).expect("names in UTF-8")
}

#[test]
#[cfg(target_env = "gnu")]
fn a_c_program_loads_no_library_but_this_and_those_of_c() {
    let text = said(Command::new("readelf").arg("-dW").arg(library()));
    let needed: Vec<&str> = text.lines().filter(|line| line.contains("(NEEDED)")).collect();
    assert!(!needed.is_empty(), "{text}");
    assert!(needed.iter().all(|line| line.contains("[libc.so") || line.contains("[ld-linux")), "{needed:?}");
}

#[test]
fn no_name_of_the_kernel_is_exported() {
    let text = said(Command::new("nm").args(["-D", "--defined-only"]).arg(library()));
    let names: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().last()).collect();
    assert!(names.contains(&"malloc") && names.contains(&"posix_memalign"), "{names:?}");
    let kernels = ["kmalloc", "kfree", "kmem_cache", "krealloc", "kvmalloc", "ksize", "ashlar_"];
    // A profile of malloc can only be asked of the library that has malloc.
    let own = |name: &str| name.starts_with("ashlar_profile_");
    let taken: Vec<&&str> =
        names.iter().filter(|name| !own(name) && kernels.iter().any(|k| name.starts_with(k))).collect();
    assert!(taken.is_empty(), "{taken:?}");
}

/// The cancellation points of POSIX and glibc's manual that an allocator might call. A thread
/// cancelled in one of them would leave the allocator's locks held. `fwrite` is only permitted to
/// be one. Only `malloc_info` calls it, on the caller's stream and without a lock.
const CANCELLATION_POINTS: [&str; 38] = [
    "accept",
    "aio_suspend",
    "clock_nanosleep",
    "close",
    "connect",
    "creat",
    "epoll_wait",
    "fcntl",
    "fcntl64",
    "fdatasync",
    "fsync",
    "lockf",
    "mq_receive",
    "msgrcv",
    "msync",
    "nanosleep",
    "open",
    "open64",
    "openat",
    "openat64",
    "pause",
    "poll",
    "ppoll",
    "pread",
    "pread64",
    "pselect",
    "pthread_cond_wait",
    "pthread_join",
    "pthread_testcancel",
    "pwrite",
    "read",
    "readv",
    "select",
    "sem_wait",
    "sleep",
    "usleep",
    "write",
    "writev",
];

#[test]
fn no_function_is_called_that_is_a_cancellation_point() {
    for file in [library().to_str().expect("a path in UTF-8").to_owned(), archive()] {
        let dynamic: &[&str] = if file.ends_with(".so") { &["-D"] } else { &[] };
        let text = said(Command::new("nm").args(dynamic).args(["--undefined-only", &file]));
        let names = text.lines().filter_map(|line| line.split_whitespace().last());
        let names: Vec<&str> = names.map(|name| name.split('@').next().unwrap_or(name)).collect();
        assert!(names.contains(&"abort"), "nm shows nothing of {file}: {names:?}");
        let points: Vec<&&str> = names.iter().filter(|name| CANCELLATION_POINTS.contains(name)).collect();
        assert!(points.is_empty(), "{file}: {points:?}");
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn probes_for_tracers_are_listed() {
    let notes = said(Command::new("readelf").arg("-nW").arg(library()));
    let probe = |name: &str| {
        let of_name = format!("    Name: {name}\n");
        let parts = notes.split("    Provider: otel_memory\n").skip(1);
        parts.filter(|part| part.starts_with(&of_name)).collect::<Vec<_>>()
    };
    for (name, arguments) in [("alloc", "8@%rdi 8@%rsi 8@%rdx"), ("free", "8@%rdi")] {
        let found = probe(name);
        assert_eq!(found.len(), 1, "{name}: {notes}");
        assert!(found[0].contains(&format!("    Arguments: {arguments}\n")), "{}", found[0]);
        let place = found[0].split("Location: 0x").nth(1).and_then(|rest| rest.split(',').next()).expect("its place");
        let place = u64::from_str_radix(place, 16).expect("a number");
        let code = said(
            Command::new("objdump")
                .args(["-d", &format!("--start-address={place}"), &format!("--stop-address={}", place + 1)])
                .arg(library()),
        );
        assert!(code.trim_end().ends_with("nop"), "{name}: {code}");
    }
}
