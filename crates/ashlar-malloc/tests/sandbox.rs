//! Restricted processes: seccomp filters, limits of memory, a root without /proc and /sys,
//! set-user-ID programs.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{NOT_HERE, archive, build, library, on_library, shared_flags, skipped, text, well};

/// Runs a program by a launcher, which uses the library, too; `None` if the system does not allow
/// it.
fn launch(launcher: &Path, options: &str, first: &[&str], program: &Path, last: &[&str]) -> Option<Output> {
    let out = on_library(launcher, options).args(first).arg(program).args(last).output().expect("it runs");
    if out.status.code() == Some(NOT_HERE) {
        skipped(&format!("{} is not allowed here", launcher.display()));
        return None;
    }
    Some(out)
}

const EPERM: &str = "1";
const ENOSYS: &str = "38";

#[test]
fn system_calls_that_a_filter_refuses_are_done_without() {
    let (forbid, busy) = (build("cc", "c/forbid.c", &[]), build("cc", "c/busy.c", &[]));
    let free = launch(&forbid, "", &[EPERM, "getcpu"], &busy, &["mode"]);
    let Some(free) = free else { return };
    let usual = text(&free.stdout);
    for code in [EPERM, ENOSYS] {
        for calls in ["membarrier", "rseq", "membarrier,rseq", "membarrier,sched_setaffinity"] {
            let out = launch(&forbid, "", &[code, calls], &busy, &["mode"]).expect("filters work here");
            assert_eq!(
                (text(&out.stderr), text(&out.stdout)),
                (String::new(), "lock well\n".into()),
                "{calls}, {code}"
            );
        }
        for calls in [
            "mbind,getcpu",
            "madvise",
            "mremap",
            "sched_getaffinity,getrandom,sysinfo,prlimit64",
            "sched_yield,clock_nanosleep",
        ] {
            let out = launch(&forbid, "", &[code, calls], &busy, &["mode"]).expect("filters work here");
            assert_eq!((text(&out.stderr), text(&out.stdout)), (String::new(), usual.clone()), "{calls}, {code}");
        }
    }
}

#[test]
fn after_the_start_no_system_call_is_made_that_is_not_on_the_list() {
    let program = build("cc", "c/sandbox.c", &[]);
    for options in ["reaper=off", "reaper=off,percpu=lock", "reaper=off,nodes=2"] {
        let out = common::preloaded(&program, options);
        if out.status.code() == Some(NOT_HERE) {
            return skipped("seccomp filters are not allowed here");
        }
        well(&out, options);
    }
}

#[test]
fn under_a_limit_memory_ends_with_enomem_and_comes_back() {
    let (limited, program) = (build("cc", "c/limited.c", &[]), build("cc", "c/memory_ends.c", &[]));
    for options in ["", "percpu=lock"] {
        for (kind, mib) in [("as", 256usize), ("as", 64), ("data", 64)] {
            let bytes = (mib << 20).to_string();
            let out = launch(&limited, options, &[kind, &bytes], &program, &[]).expect("limits may be lowered");
            well(&out, &format!("{kind} {mib} MiB under `{options}`"));
        }
    }
}

#[test]
fn a_limit_that_comes_after_the_start_is_met() {
    let program = build("cc", "c/memory_ends.c", &[]);
    for (kind, mib) in [("as", "256"), ("data", "64")] {
        let out = on_library(&program, "").args([kind, mib]).output().expect("it runs");
        well(&out, &format!("{kind} {mib} MiB"));
    }
}

/// A directory of its own under the tests' directory, empty.
fn directory(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).expect("a directory");
    dir
}

/// Copies a program and the shared libraries that it and ours need.
fn copy_with_libraries(program: &Path, root: &Path) {
    fs::copy(program, root.join("program")).expect("a copy");
    fs::copy(library(), root.join("libashlar_malloc.so")).expect("a copy");
    for of in [program, &library()] {
        let out = Command::new("ldd").arg(of).output().expect("ldd runs");
        for path in text(&out.stdout).split_whitespace().filter(|word| word.starts_with('/')) {
            let to = root.join(&path[1..]);
            fs::create_dir_all(to.parent().expect("a directory")).expect("a directory");
            fs::copy(path, to).expect("a copy");
        }
    }
}

#[test]
fn a_root_without_proc_and_sys_will_do() {
    let (jail, busy) = (build("cc", "c/jail.c", &[]), build("cc", "c/busy.c", &[]));
    let root = directory("root");
    copy_with_libraries(&busy, &root);
    fs::copy(build("cc", "c/busy.c", &["-static", &archive()]), root.join("static")).expect("a copy");
    fs::copy(build("cc", "c/preloading.c", &["-static"]), root.join("preloading")).expect("a copy");
    for (program, preload) in [("/program", "/libashlar_malloc.so"), ("/static", "")] {
        // A third program preloads: the library's path is one inside the root.
        let out = Command::new(&jail).arg(&root).args(["/preloading", preload, program]).output().expect("it runs");
        if out.status.code() == Some(NOT_HERE) {
            return skipped("neither chroot nor user namespaces are allowed here");
        }
        well(&out, program);
    }
    fs::remove_dir_all(&root).expect("ours");
}

#[test]
fn a_set_user_id_program_ignores_the_environment() {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return skipped("only root can make a set-user-ID program of another user");
    }
    let dir = directory("secure");
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).expect("ours");
    // Beside the static one, one that has the library by its path: preloading is off for such
    // programs.
    for (name, flags) in [("static", vec!["-static".to_owned(), archive()]), ("shared", shared_flags().to_vec())] {
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let program = dir.join(name);
        fs::copy(build("cc", "c/secure.c", &flags), &program).expect("a copy");
        let run = || {
            let options = [("ASHLAR_OPTIONS", "percpu=lock,nonsense=1"), ("ASHLAR_STATS", "text")];
            let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
            Command::new("setpriv").args(nobody).arg(&program).envs(options).output()
        };
        // The owner may run it: the options count.
        let Ok(out) = run() else { return skipped("no setpriv") };
        if !text(&out.stdout).starts_with("secure 0") {
            return skipped(&format!("another user cannot run programs in {}: {}", dir.display(), text(&out.stderr)));
        }
        assert_eq!(text(&out.stdout), "secure 0 mode lock\n");
        assert!(
            text(&out.stderr).contains("nonsense") && text(&out.stderr).contains("mode lock"),
            "{}",
            text(&out.stderr)
        );
        fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).expect("ours");
        let out = run().expect("it ran before");
        if text(&out.stdout).starts_with("secure 0") {
            return skipped("set-user-ID has no effect on this file system");
        }
        let usual = Command::new(&program).env_remove("ASHLAR_OPTIONS").output().expect("it runs");
        let expected = text(&usual.stdout).replace("secure 0", "secure 1");
        assert_eq!((text(&out.stderr), text(&out.stdout)), (String::new(), expected), "{name}");
    }
    fs::remove_dir_all(&dir).expect("ours");
}
