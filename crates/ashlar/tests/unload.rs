//! A Rust library that allocates from `Ashlar`, loaded and unloaded by a program that also forks.
#![cfg(all(target_env = "gnu", target_arch = "x86_64"))]

mod common;

use core::ffi::{CStr, c_void};
use core::sync::atomic::{AtomicBool, Ordering};
use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::child;

/// Builds the example `plugin` in the profile of this test, and returns its path.
fn built() -> PathBuf {
    let exe = std::env::current_exe().expect("the test program has a path");
    let folder = exe.ancestors().nth(2).expect("target/PROFILE/deps/program").to_owned();
    let profile = folder.file_name().and_then(|name| name.to_str()).expect("a name in UTF-8");
    let out = Command::new(env!("CARGO"))
        .args(["build", "--offline", "--package", "ashlar-alloc", "--example", "plugin", "--profile"])
        .arg(if profile == "debug" { "dev" } else { profile })
        .arg("--target-dir")
        .arg(folder.parent().expect("target/PROFILE"))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .output()
        .expect("cargo runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    folder.join("examples/libplugin.so")
}

struct Plugin {
    handle: *mut c_void,
    start: extern "C" fn() -> bool,
    work: extern "C" fn(usize) -> usize,
}

fn load(path: &Path) -> Plugin {
    let path = CString::new(path.to_owned().into_os_string().into_vec()).expect("no NUL in a path");
    // SAFETY: loads a library of this project, whose initialisers have no preconditions.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    assert!(!handle.is_null(), "dlopen");
    let address = |name: &CStr| {
        // SAFETY: the handle is live.
        let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
        assert!(!address.is_null(), "{name:?}");
        address
    };
    // SAFETY: these are the types of the functions in examples/plugin.rs.
    unsafe {
        Plugin {
            handle,
            start: core::mem::transmute::<*mut c_void, extern "C" fn() -> bool>(address(c"plugin_start")),
            work: core::mem::transmute::<*mut c_void, extern "C" fn(usize) -> usize>(address(c"plugin_work")),
        }
    }
}

/// Checks that threads in the library's code continue after the program unloads it, and that the
/// library's own thread does.
#[test]
fn threads_outlive_dlclose() {
    let path = built();
    let Some(child) = child("threads_outlive_dlclose", "unload", &[], || {
        let plugin = load(&path);
        let expected = (plugin.work)(1);
        assert!((plugin.start)());
        let (stop, work) = (AtomicBool::new(false), plugin.work);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        assert_eq!(work(1), expected);
                    }
                });
            }
            std::thread::sleep(core::time::Duration::from_millis(20));
            // SAFETY: live, closed once. The test checks that the code stays mapped.
            assert_eq!(unsafe { libc::dlclose(plugin.handle) }, 0);
            // Longer than a period of the library's thread.
            std::thread::sleep(core::time::Duration::from_millis(400));
            stop.store(true, Ordering::Relaxed);
        });
        let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
        assert!(maps.contains("libplugin.so"), "unloaded:\n{maps}");
        assert_eq!((load(&path).work)(1), expected, "loaded again");
    }) else {
        return;
    };
    child.succeeded();
}

/// Forks while other threads allocate in the library. Children can allocate there, because the
/// library registers its fork handlers itself.
#[test]
fn children_of_busy_parents_live() {
    let path = built();
    let Some(child) = child("children_of_busy_parents_live", "fork", &[], || {
        let plugin = load(&path);
        let (stop, work) = (AtomicBool::new(false), plugin.work);
        let mut hung = 0;
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        work(3);
                    }
                });
            }
            for _ in 0..300 {
                // SAFETY: the child only calls the library, whose locks are under test, and ends.
                // The alarm ends it if it hangs.
                let pid = unsafe { libc::fork() };
                if pid == 0 {
                    // SAFETY: plain system calls.
                    unsafe {
                        libc::alarm(5);
                        work(20);
                        libc::_exit(0);
                    }
                }
                let mut status = 0;
                // SAFETY: the status is writable; the process is a child of ours.
                assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
                hung += i32::from(status != 0);
                if hung > 0 {
                    break;
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(hung, 0, "a child hung or failed");
    }) else {
        return;
    };
    child.succeeded();
}
