//! The checks, one function each. None changes anything, and none runs the program.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::finding::{Finding, State};
use super::subject::{Kind, Subject};
use crate::observe::process::Standing;
use crate::{host, library, program};

/// Runs all checks that apply to the subject.
pub(super) fn all(subject: &Subject) -> Vec<Finding> {
    let mut findings = Vec::new();
    match &subject.kind {
        Kind::Machine => findings.push(tools_mode(subject)),
        Kind::Program { .. } => {
            findings.extend(program_file(subject));
            findings.push(tools_mode(subject));
        }
        Kind::Process { standing, .. } => {
            findings.extend(process(subject, standing));
            if !matches!(**standing, Standing::On(_)) {
                findings.extend(program_file(subject));
            }
        }
    }
    if !matches!(subject.kind, Kind::Process { .. }) {
        findings.push(our_library());
    }
    findings.extend(preloaded(subject));
    findings.extend([kernel(), c_library(subject), rseq(subject), membarrier(), huge_pages(), overcommit()]);
    findings.extend(limits(subject));
    findings.extend([
        cgroup(subject),
        seccomp(subject),
        nodes(),
        ptrace_scope(&read("/proc/sys/kernel/yama/ptrace_scope")),
    ]);
    findings
}

fn read(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| String::new(), |text| text.trim().to_owned())
}

/// Returns why a process runs without rseq, in the order in which the start looks.
fn why_locks(subject: &Subject, options: &str) -> (String, String) {
    let asked = options.split(',').filter_map(|part| part.trim().strip_prefix("percpu=")).next_back();
    let (why, advice) = match asked {
        Some("lock") => ("the option percpu=lock", "leave that option out"),
        _ if !has_rseq() => (
            "the system refuses rseq: the kernel is older than 4.18, or a filter or a sandbox is in the way",
            "allow the system call rseq (man 2 rseq)",
        ),
        _ if !has_membarrier() => (
            "the system refuses membarrier for rseq: the kernel is older than 5.10, or a filter is in the way",
            "allow the system call membarrier",
        ),
        _ if rseq_is_off(subject) => {
            ("GLIBC_TUNABLES has glibc.pthread.rseq=0", "leave that tunable out, or set percpu=rseq")
        }
        _ => (
            "critical sections are not aborted here, as under an emulator, or the C library has no place for rseq",
            "run it on a Linux kernel and with glibc; percpu=rseq tests for it",
        ),
    };
    (why.to_owned(), advice.to_owned())
}

fn mode(subject: &Subject, mode: &str, options: &str) -> Finding {
    match mode {
        "rseq" => Finding::ok("mode", "rseq: per-CPU sections of the kernel, without locks"),
        "emulate" => Finding::problem(
            "mode",
            "emulate: nothing protects threads from one another",
            "leave percpu=emulate out; it is for counting instructions",
        ),
        _ => {
            let (why, advice) = why_locks(subject, options);
            Finding::problem("mode", format!("{mode}: an atomic exchange in each call. {why}"), advice)
        }
    }
}

/// The mode of this tool, which started as the program would.
fn tools_mode(subject: &Subject) -> Finding {
    let options = subject.variable("ASHLAR_OPTIONS").unwrap_or_default();
    mode(subject, &ashlar::mode().to_string(), &options)
}

/// What a process that runs is on.
fn process(subject: &Subject, standing: &Standing) -> Vec<Finding> {
    let report = match standing {
        Standing::On(report) => report,
        Standing::NoWindow(_) => {
            return vec![Finding::note(
                "ashlar",
                "the library is there, but it has no window: window=off, memfd_create was refused at its start, or RLIMIT_FSIZE is 0",
                "leave out window=off and allow memfd_create, if `ashlar info` is to read it",
            )];
        }
        Standing::Foreign(_) => {
            return vec![Finding::problem(
                "ashlar",
                "the process is not on ashlar",
                "start it by `ashlar run`, or with LD_PRELOAD=libashlar_malloc.so",
            )];
        }
    };
    let mut findings = Vec::new();
    for allocator in report.standings() {
        findings.push(Finding::ok("ashlar", format!("{}, in {}", allocator.version, allocator.file)));
        findings.push(mode(subject, allocator.mode, allocator.options));
        if !allocator.options.is_empty() {
            findings.push(Finding::note("options", allocator.options, ""));
        }
    }
    let foreign = foreign_libraries(&subject.read("maps"));
    if !foreign.is_empty() {
        findings.push(Finding::note(
            "other malloc",
            format!("{} is loaded too", foreign.join(", ")),
            "libraries that were linked with it may use it; one that comes before ashlar in LD_PRELOAD wins",
        ));
    }
    findings
}

/// Names of other allocators' libraries.
const LIBRARIES: [&str; 8] = [
    "libjemalloc",
    "libtcmalloc",
    "libmimalloc",
    "libsnmalloc",
    "librpmalloc",
    "libhoard",
    "libscudo",
    "libc_malloc_debug",
];

/// Returns the files of other allocators in a text that names files.
fn foreign_libraries(text: &str) -> Vec<String> {
    let words = text.split([' ', '\n', ':', '\t']).filter(|word| word.contains('/') || word.starts_with("lib"));
    let mut found: Vec<String> = words
        .filter(|word| {
            let name = word.rsplit('/').next().unwrap_or_default();
            LIBRARIES.iter().any(|library| name.starts_with(library))
        })
        .map(str::to_owned)
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// What the file of a program says.
fn program_file(subject: &Subject) -> Vec<Finding> {
    let Some(path) = subject.path() else { return Vec::new() };
    let mut findings = Vec::new();
    findings.extend(privileges(&path));
    let Some(file) = subject.file() else {
        findings.push(Finding::note("program", "its file is no 64-bit ELF file that can be read", ""));
        return findings;
    };
    if file.interpreter.is_empty() {
        let (what, advice) = if file.go {
            ("a static Go program: it has a heap of its own, and no malloc", "nothing: ashlar cannot serve it")
        } else {
            ("a static program: it has no dynamic linker to preload a library", "link it with libashlar_malloc.a")
        };
        findings.push(Finding::problem("program", what, advice));
    } else if file.interpreter.contains("ld-musl") {
        findings.push(Finding::problem(
            "program",
            format!("its dynamic linker is musl's ({})", file.interpreter),
            "build the library for musl, or the program for glibc",
        ));
    } else {
        findings.push(Finding::ok("program", "dynamic: a library can be preloaded"));
    }
    if file.own_malloc {
        let which =
            if file.allocators.is_empty() { "an allocator of its own".into() } else { file.allocators.join(", ") };
        findings.push(Finding::problem(
            "own malloc",
            format!("it defines malloc itself ({which}): its calls do not reach a preloaded library"),
            "build it without that allocator, or link it with libashlar_malloc.a instead",
        ));
    } else if !file.allocators.is_empty() {
        findings.push(Finding::note(
            "own malloc",
            format!(
                "{} is linked into it, under names of its own: what it allocates there stays there",
                file.allocators.join(", ")
            ),
            "a Rust program may take `Ashlar` as its global allocator instead",
        ));
    }
    if file.go && !file.interpreter.is_empty() {
        findings.push(Finding::note("Go", "the Go runtime has a heap of its own: only C code calls malloc", ""));
    }
    findings
}

/// Rights by which the dynamic linker ignores `LD_PRELOAD`.
fn privileges(path: &Path) -> Option<Finding> {
    let meta = fs::metadata(path).ok()?;
    let advice = "name the library in /etc/ld.so.preload, or link the program with it";
    if program::gains_rights(&meta) {
        let value =
            format!("owned by {}, set-user-ID or set-group-ID: its dynamic linker ignores LD_PRELOAD", meta.uid());
        return Some(Finding::problem("rights", value, advice));
    }
    has_capabilities(path)
        .then(|| Finding::problem("rights", "it has file capabilities: its dynamic linker ignores LD_PRELOAD", advice))
}

#[expect(unsafe_code, reason = "a call of the C library")]
fn has_capabilities(path: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(path) = std::ffi::CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: both strings end with a zero byte, and with a size of 0 nothing is written.
    let bytes = unsafe { libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), core::ptr::null_mut(), 0) };
    bytes > 0
}

fn our_library() -> Finding {
    match library::find() {
        Ok(path) => Finding::ok("library", path.display().to_string()),
        Err(error) => Finding::problem(
            "library",
            error.to_string(),
            "install it, or build it: cargo build --release -p ashlar-malloc",
        ),
    }
}

/// What is preloaded beside ashlar.
fn preloaded(subject: &Subject) -> Option<Finding> {
    let list = subject.variable("LD_PRELOAD").unwrap_or_default() + " " + &read("/etc/ld.so.preload");
    let foreign = foreign_libraries(&list);
    if foreign.is_empty() {
        return None;
    }
    let ours = list.find("libashlar_malloc");
    let first = ours.is_some_and(|ours| foreign.iter().all(|other| list.find(other.as_str()) > Some(ours)));
    let value = format!("{} is preloaded", foreign.join(", "));
    Some(if first || matches!(subject.kind, Kind::Machine | Kind::Program { .. }) {
        Finding::note("preload", value + " too", "`ashlar run` puts ashlar before it; leave it out of LD_PRELOAD")
    } else {
        Finding::problem("preload", value + " before ashlar, so its malloc is used", "leave it out of LD_PRELOAD")
    })
}

fn kernel() -> Finding {
    let release = read("/proc/sys/kernel/osrelease");
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < (5, 10) {
        return Finding::problem(
            "kernel",
            release,
            "from Linux 5.10 on there is membarrier for rseq, and no lock is needed",
        );
    }
    Finding::ok("kernel", release)
}

fn c_library(subject: &Subject) -> Finding {
    let name = host::c_library();
    let mut numbers = name.trim_start_matches("glibc ").split('.').map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= (2, 35) && !rseq_is_off(subject) {
        Finding::ok("C library", format!("{name}, which registers each thread for rseq"))
    } else {
        Finding::note("C library", format!("{name}: each thread registers itself for rseq at its first slow call"), "")
    }
}

/// Returns whether glibc is told to leave rseq alone.
fn rseq_is_off(subject: &Subject) -> bool {
    subject
        .variable("GLIBC_TUNABLES")
        .is_some_and(|tunables| tunables.split(':').any(|one| one == "glibc.pthread.rseq=0"))
}

#[expect(unsafe_code, reason = "a system call that only says whether it exists")]
fn has_rseq() -> bool {
    // SAFETY: a length of 0 is refused before anything else is looked at.
    let refused = unsafe { libc::syscall(libc::SYS_rseq, 0usize, 0u32, 0i32, 0u32) };
    refused == 0 || std::io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL)
}

#[expect(unsafe_code, reason = "a system call that only says what it can do")]
fn has_membarrier() -> bool {
    const QUERY: i32 = 0;
    const PRIVATE_EXPEDITED_RSEQ: i64 = 1 << 7;
    // SAFETY: the query takes integers and changes nothing.
    let commands = unsafe { libc::syscall(libc::SYS_membarrier, QUERY, 0u32, 0i32) };
    commands > 0 && commands & PRIVATE_EXPEDITED_RSEQ != 0
}

fn rseq(subject: &Subject) -> Finding {
    match (has_rseq(), rseq_is_off(subject)) {
        (false, _) => Finding::problem(
            "rseq",
            "the system refuses it",
            "allow the system call rseq, or use a kernel from 4.18 on",
        ),
        (true, true) => Finding::note(
            "rseq",
            "allowed, but GLIBC_TUNABLES has glibc.pthread.rseq=0",
            "leave it out, or set percpu=rseq",
        ),
        (true, false) => Finding::ok("rseq", "allowed"),
    }
}

fn membarrier() -> Finding {
    if has_membarrier() {
        Finding::ok("membarrier", "allowed, for rseq too")
    } else {
        Finding::problem(
            "membarrier",
            "the system refuses it, or not for rseq",
            "allow the system call, or use a kernel from 5.10 on",
        )
    }
}

fn huge_pages() -> Finding {
    let text = read("/sys/kernel/mm/transparent_hugepage/enabled");
    match text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(chosen, _)| chosen) {
        Some("always") => Finding::note(
            "huge pages",
            "always: more memory is resident than the program touches",
            "for less memory: madvise in /sys/kernel/mm/transparent_hugepage/enabled",
        ),
        Some("madvise") => Finding::ok("huge pages", "madvise: where ashlar asks for them (option hugepages)"),
        Some("never") => Finding::note("huge pages", "never: the option hugepages has no effect", ""),
        _ => Finding::note("huge pages", "the kernel does not say", ""),
    }
}

fn overcommit() -> Finding {
    match read("/proc/sys/vm/overcommit_memory").as_str() {
        "2" => Finding::note(
            "overcommit",
            "2: memory is charged when it is mapped, and the zone grows by an eighth at a time",
            "vm.overcommit_ratio must leave room; zone=BYTES bounds what is mapped",
        ),
        "" => Finding::note("overcommit", "the kernel does not say", ""),
        mode => Finding::ok("overcommit", mode),
    }
}

/// Limits of the process that change what ashlar can do.
fn limits(subject: &Subject) -> Vec<Finding> {
    let text = subject.read("limits");
    let soft = |name: &str| -> Option<u64> {
        text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
    };
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    let mut findings = Vec::new();
    for (name, option) in [("Max address space", "ulimit -v"), ("Max data size", "ulimit -d")] {
        if let Some(limit) = soft(name) {
            findings.push(Finding::note(
                "limit",
                format!("{option} is {}: beyond it, malloc returns null", mib(limit)),
                format!("zone={}M keeps a part of it for other mappings", (limit >> 20) * 3 / 4),
            ));
        }
    }
    if let Some(limit) = soft("Max locked memory")
        && limit < 8 << 20
    {
        let value = format!("ulimit -l is {}: mlockall counts ashlar's tables too", mib(limit));
        findings.push(Finding::note("limit", value, "raise it to 8 MiB where the program calls mlockall"));
    }
    if soft("Max file size").is_some_and(|limit| limit < 4096) {
        let value = "ulimit -f is below a page: there will be no window for `ashlar info`";
        findings.push(Finding::note("limit", value, "raise it, if the process is to be watched"));
    }
    if findings.is_empty() {
        findings.push(Finding::ok("limits", "none on addresses, data or locked memory that matters"));
    }
    findings
}

/// Finds the limit of memory of the control group.
fn cgroup(subject: &Subject) -> Finding {
    let text = subject.read("cgroup");
    let mut lowest: Option<(u64, String)> = None;
    for line in text.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|one| one == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        // A limit of any group above counts. In a container the path may not exist: then its root.
        for group in Path::new(path).ancestors() {
            let place = Path::new(root).join(group.strip_prefix("/").unwrap_or(group)).join(file);
            let limit = fs::read_to_string(&place).ok().and_then(|text| text.trim().parse::<u64>().ok());
            if let Some(limit) = limit.filter(|&limit| limit < 1 << 60)
                && lowest.as_ref().is_none_or(|(known, _)| limit < *known)
            {
                lowest = Some((limit, place.display().to_string()));
            }
        }
    }
    match lowest {
        None => Finding::ok("cgroup", "no limit of memory"),
        Some((limit, place)) => Finding::note(
            "cgroup",
            format!("a limit of {} MiB ({place})", limit >> 20),
            "ashlar gives memory back by itself, but not because the group is full: for less, decay=100",
        ),
    }
}

fn seccomp(subject: &Subject) -> Finding {
    let status = subject.read("status");
    let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:")).map(str::trim);
    match mode {
        Some("0") => Finding::ok("seccomp", "no filter"),
        Some("1") => Finding::problem("seccomp", "strict: no memory can be mapped", "use a filter instead"),
        Some(_) => Finding::note(
            "seccomp",
            "a filter is in force, which may refuse rseq, membarrier or memfd_create",
            "docs/process.md lists the system calls; a filter should refuse by EPERM or ENOSYS, not kill",
        ),
        None => Finding::note("seccomp", "the kernel does not say", ""),
    }
}

fn nodes() -> Finding {
    let online = read("/sys/devices/system/node/online");
    if online.is_empty() || online == "0" {
        return Finding::ok("NUMA", "one node");
    }
    Finding::note(
        "NUMA",
        format!("nodes {online}: each has its own slabs, and frees take a path that compares nodes"),
        "numactl --cpunodebind keeps a program on one; remote_node_defrag_ratio=100 shares memory",
    )
}

/// Whether `ashlar info` and its relatives may read processes.
pub(super) fn ptrace_scope(scope: &str) -> Finding {
    let root = program::effective_user() == 0;
    let advice = "run ashlar info, top and tune as root, or set kernel.yama.ptrace_scope to 0";
    match scope {
        "" | "0" => Finding::ok("ptrace", "processes of the same user may be watched"),
        "1" | "2" if root => {
            Finding::ok("ptrace", format!("kernel.yama.ptrace_scope is {scope}: root may watch processes"))
        }
        "1" | "2" => Finding {
            name: "ptrace",
            state: State::Note,
            value: format!("kernel.yama.ptrace_scope is {scope}: root alone may watch processes"),
            advice: advice.to_owned(),
        },
        _ => Finding::note(
            "ptrace",
            format!("kernel.yama.ptrace_scope is {scope}: nobody may watch processes"),
            "boot with another value",
        ),
    }
}
