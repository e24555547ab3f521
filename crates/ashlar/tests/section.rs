//! The fast paths in a kernel, where a section is plain code with interrupts off: no locked
//! instruction, and an exact number of instructions.
//!
//! The [`Platform`] is that of docs/kernel.md, but for the two privileged instructions, in whose
//! place a program has `nop`. So the counts are those of ring 0.
//!
//! `golden/section.txt` holds them; run with `ASHLAR_UPDATE_GOLDEN=1` to write it.
#![cfg(all(not(feature = "os"), target_arch = "x86_64", not(debug_assertions)))]

mod common {
    #![allow(dead_code, reason = "the other tests use the rest")]

    pub(crate) mod process;
    pub(crate) mod step;

    pub(crate) use process::*;
}
#[path = "common/count.rs"]
#[expect(dead_code, reason = "the other tests use the rest")]
mod count;

use core::arch::asm;
use core::cell::Cell;
use core::fmt::Write;
use core::hint::black_box;
use core::ptr::NonNull;

use ashlar::{ArenaSource, CacheArgs, KmemCache, NodeId, Platform};
use common::{child, tell};
use count::{about_as_golden, each_executed};
use iced_x86::{Mnemonic, OpKind};

/// What the kernel keeps for each CPU. Its GS base points here.
#[repr(C)]
struct PerCpu {
    this: *const PerCpu,
    number: u32,
    /// How deep sections nest, and whether interrupts were on before the first.
    depth: Cell<u32>,
    were_on: Cell<bool>,
    thread: Cell<usize>,
}

fn here() -> &'static PerCpu {
    let this: *const PerCpu;
    // SAFETY: GS points to the block of this CPU, whose first word is its own address.
    unsafe { asm!("mov {}, gs:[0]", out(reg) this, options(nostack, preserves_flags)) };
    // SAFETY: as above.
    unsafe { &*this }
}

struct Machine {
    nodes: u32,
}

// SAFETY: there is one thread, and it has no signal handler that allocates.
unsafe impl Platform for Machine {
    fn cpus(&self) -> u32 {
        8
    }
    fn this_cpu(&self) -> u32 {
        here().number
    }
    fn this_thread(&self) -> usize {
        here().thread.get()
    }
    fn enter(&self) -> u32 {
        let flags: usize;
        // SAFETY: reads the flags.
        unsafe { asm!("pushfq", "pop {}", "nop", out(reg) flags) };
        let cpu = here();
        if cpu.depth.replace(cpu.depth.get() + 1) == 0 {
            cpu.were_on.set(flags & 1 << 9 != 0);
        }
        cpu.number
    }
    unsafe fn leave(&self) {
        let cpu = here();
        cpu.depth.set(cpu.depth.get() - 1);
        if cpu.depth.get() == 0 && cpu.were_on.get() {
            // SAFETY: does nothing.
            unsafe { asm!("nop", options(nostack)) };
        }
    }
    fn nodes(&self) -> u32 {
        self.nodes
    }
    fn node_of_cpu(&self, cpu: u32) -> u32 {
        cpu % self.nodes
    }
}

/// Starts the allocator for this thread, as CPU 3.
fn start(nodes: u32) {
    let block = Box::leak(Box::new(PerCpu {
        this: core::ptr::null(),
        number: 3,
        depth: Cell::new(0),
        were_on: Cell::new(false),
        thread: Cell::new(2),
    }));
    block.this = &raw const *block;
    const ARCH_SET_GS: i64 = 0x1001;
    // SAFETY: nothing else of the process uses GS.
    assert_eq!(unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, block.this) }, 0);
    let bytes = 64 << 20;
    let memory = NonNull::new(vec![0u8; bytes].leak().as_mut_ptr()).expect("not null");
    // SAFETY: leaked, zeroed memory with no other user.
    let source = Box::leak(Box::new(unsafe { ArenaSource::new(memory, bytes) }));
    assert_eq!(ashlar::start_on_cpus(source, Box::leak(Box::new(Machine { nodes }))), Ok(true));
}

#[inline(never)]
fn alloc(cache: &KmemCache) -> Option<NonNull<u8>> {
    cache.alloc()
}

#[inline(never)]
fn free(cache: &KmemCache, object: NonNull<u8>) {
    // SAFETY: callers give live objects of the cache, each once.
    unsafe { cache.free(object) };
}

/// Tells the instructions of each fast path, and panics if one is locked.
fn measure() {
    let cache = KmemCache::create("golden", 64, &CacheArgs::default()).expect("a cache");
    // Half fills the sheaves, so that nothing below takes a slow path.
    let warm: Vec<_> = (0..10).map(|_| (cache.alloc().expect("memory"), ashlar::kmalloc(64))).collect();
    for (a, b) in warm {
        // SAFETY: live, each freed once.
        unsafe {
            cache.free(a);
            ashlar::kfree(b);
        }
    }
    let count = |name: &str, start: u64, operation: &mut dyn FnMut()| {
        let mut locked = 0;
        let mut look = |instruction: &iced_x86::Instruction| {
            let memory = (0..instruction.op_count()).any(|i| instruction.op_kind(i) == OpKind::Memory);
            let exchange = instruction.mnemonic() == Mnemonic::Xchg && memory;
            let fences = [Mnemonic::Mfence, Mnemonic::Cpuid].contains(&instruction.mnemonic());
            if std::env::var_os("ASHLAR_SHOW_CODE").is_some() {
                eprintln!("{name}: {:x} {instruction}", instruction.ip());
            }
            locked += usize::from(instruction.has_lock_prefix() || exchange || fences);
        };
        let instructions = each_executed(start, &mut look, operation);
        assert_eq!(locked, 0, "{name} has locked instructions");
        tell(name, instructions);
    };
    let mut at = core::ptr::null_mut();
    count("kmalloc", ashlar::kmalloc as *const () as u64, &mut || at = ashlar::kmalloc(black_box(64)));
    // SAFETY: live, freed once.
    count("kfree", ashlar::kfree as *const () as u64, &mut || unsafe { ashlar::kfree(at) });
    at = ashlar::kmalloc(64);
    let sized = ashlar::kfree_sized as *const () as u64;
    // SAFETY: live, freed once.
    count("kfree_sized", sized, &mut || unsafe { ashlar::kfree_sized(at, black_box(64)) });
    let mut object = None;
    count("cache alloc", alloc as *const () as u64, &mut || object = alloc(black_box(&cache)));
    let object = object.expect("memory");
    if ashlar::nodes() > 1 {
        // The first of each is freed to a new far sheaf.
        let far: Vec<_> = (0..4).map(|_| (cache.alloc_on(NodeId(1)), ashlar::kmalloc_on(64, NodeId(1)))).collect();
        for (round, (of_cache, at)) in far.into_iter().enumerate() {
            let of_cache = of_cache.expect("memory");
            assert!([at, of_cache.as_ptr()].iter().all(|&at| ashlar::node_of(at) == Some(NodeId(1))));
            if round < 3 {
                // SAFETY: live, each freed once.
                unsafe {
                    cache.free(of_cache);
                    ashlar::kfree(at);
                }
                continue;
            }
            // SAFETY: live, freed once.
            count("far kfree", ashlar::kfree as *const () as u64, &mut || unsafe { ashlar::kfree(at) });
            count("far cache free", free as *const () as u64, &mut || free(black_box(&cache), of_cache));
        }
    }
    count("cache free", free as *const () as u64, &mut || free(black_box(&cache), object));
}

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/section.txt");
/// The counts of the engines on Linux.
const ENGINES: &str = include_str!("golden/engines.txt");

/// Returns the instructions of a pair of `kmalloc` and `kfree` of an engine on Linux.
fn pair_on_linux(engine: &str) -> usize {
    let mut lines = ENGINES.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let line = lines.find(|line| line.first() == Some(&engine)).expect("the engine has a line");
    line[1..3].iter().map(|count| count.parse::<usize>().expect("a number")).sum()
}

#[test]
fn fast_paths_in_a_kernel_are_as_long_as_the_golden_file_says() {
    let test = "fast_paths_in_a_kernel_are_as_long_as_the_golden_file_says";
    let mut text = String::new();
    for nodes in [1, 4] {
        let outcome = child(test, &format!("{nodes} nodes"), &[], || {
            start(nodes);
            measure();
        });
        let Some(outcome) = outcome.map(common::Child::succeeded) else { continue };
        let told = |name| outcome.told(name).parse::<usize>().expect("a number");
        writeln!(text, "{nodes} node(s)").expect("a string");
        let mut far = Vec::new();
        if nodes > 1 {
            far.push(("kfree of another node", told("far kfree")));
            far.push(("KmemCache::free of another node", told("far cache free")));
        }
        for (name, instructions) in [
            ("kmalloc", told("kmalloc")),
            ("kfree", told("kfree")),
            ("kfree_sized", told("kfree_sized")),
            ("pair: kmalloc, kfree", told("kmalloc") + told("kfree")),
            ("pair: KmemCache::alloc, free", told("cache alloc") + told("cache free")),
        ]
        .into_iter()
        .chain(far)
        {
            writeln!(text, "{instructions:3} {name}").expect("a string");
            let most = pair_on_linux("slub+");
            assert!(instructions <= most, "{name}: {instructions}, and slub+ on Linux has {most}\n{text}");
        }
    }
    if !text.is_empty() && common::is_parent() {
        print!("{text}");
        about_as_golden(GOLDEN, &text);
    }
}
