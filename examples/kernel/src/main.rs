//! A kernel that boots on ashlar: QEMU's `-kernel` loads it, all CPUs start, and the lab's tests
//! run in ring 0, on ashlar and on other allocators. `ashlar-lab kernel` builds and boots it, and
//! reads what it prints. The allocator is set up in `lib.rs`, which is the code of docs/kernel.md.
#![no_std]
#![no_main]

extern crate alloc;

mod machine;
mod options;
mod systems;
mod tests;

use alloc::vec::Vec;

use ashlar_in_a_kernel::{Machine, start_heap};
use machine::memory::{Arena, SOURCE};
use machine::{MOST_CPUS, console, cpus, interrupts, memory, tables};
use options::Options;
use pvh::start_info::reader::StartInfoReader;
use spin::Once;
use systems::{Buddy, Caches, Heap, Kmalloc, Locked, Talc};

/// MiB that the other allocators take turns with, where the command line does not say.
const ARENA: u64 = 96;

static MACHINE: Once<Machine> = Once::new();

/// Entered by the first CPU, with the address of what the loader tells.
#[unsafe(no_mangle)]
extern "C" fn first_cpu(start_info: u32) -> ! {
    console::start();
    match boot(start_info) {
        Ok(well) => {
            say!("end");
            console::end(well)
        }
        Err(why) => console::fail(format_args!("{why}")),
    }
}

/// Brings the machine up, and runs everything.
fn boot(start_info: u32) -> Result<bool, &'static str> {
    // SAFETY: the loader's structure, in memory that is mapped to itself and is still the loader's.
    let info = unsafe { StartInfoReader::from_paddr_identity(start_info) }.ok_or("no start info")?;
    let line = info.cmdline().and_then(|line| line.to_str().ok()).unwrap_or("");
    let found = tables::read(info.raw().rsdp_paddr)?;
    let arena = memory::start(info.memmap(), &found, options::number(line, "arena").unwrap_or(ARENA) << 20)?;
    cpus::become_cpu(0);
    let machine = MACHINE.call_once(|| {
        let mut node_of_cpu = [0; MOST_CPUS];
        found.cpus().iter().zip(&mut node_of_cpu).for_each(|(cpu, node)| *node = cpu.node);
        Machine {
            cpus: found.cpus().len() as u32,
            nodes: found.nodes,
            node_of_cpu,
            print: |text| say!("{}", text.trim_end()),
        }
    });
    for node in 0..found.nodes {
        say!("node {node} {}", memory::bytes_of(node as usize));
    }
    if !start_heap(&SOURCE, machine) {
        return Err("ashlar did not start");
    }
    let options = Options::read(line);
    interrupts::start(options.period);
    interrupts::tick(false);
    x86_64::instructions::interrupts::enable();
    let running = cpus::start(found.cpus(), options.period);
    let nodes: Vec<u32> = found.cpus().iter().map(|cpu| cpu.node).collect();
    for (number, cpu) in found.cpus().iter().enumerate() {
        say!("cpu {number} {} {}", cpu.apic, cpu.node);
    }
    say!("begin cpus={running} nodes={} objects={} period={}", found.nodes, options.objects, options.period);
    let mut well = tests::run(&Kmalloc, &options, &nodes);
    well &= tests::run(&Caches::new(&options.sizes)?, &options, &nodes);
    well &= other::<Buddy>(arena, &options, &nodes);
    well &= other::<buddy_system_allocator::Heap<32>>(arena, &options, &nodes);
    well &= other::<linked_list_allocator::Heap>(arena, &options, &nodes);
    well &= other::<Talc>(arena, &options, &nodes);
    Ok(well)
}

/// Runs everything on one of the others.
fn other<H: Heap>(arena: Arena, options: &Options, nodes: &[u32]) -> bool {
    // SAFETY: the arena is no other system's any more.
    tests::run(&unsafe { Locked::<H>::new(arena) }, options, nodes)
}
