// In Asterinas, ostd defines the global allocator, and asks the kernel's heap for *slots*. Above
// 2 KiB they are segments of frames, as in its own heap.
struct Heap;

impl GlobalHeapAllocator for Heap {
    fn alloc(&self, layout: Layout) -> Result<HeapSlot, AllocError> {
        let info = slot_info(layout).ok_or(AllocError)?;
        match info {
            SlotInfo::SlabSlot(size) => {
                let object = NonNull::new(ashlar::kmalloc(size)).ok_or(AllocError)?;
                // SAFETY: an object of `size` bytes, and of that alignment, that nothing else uses.
                Ok(unsafe { HeapSlot::new(object, info) })
            }
            SlotInfo::LargeSlot(size) => HeapSlot::alloc_large(size),
        }
    }

    fn dealloc(&self, slot: HeapSlot) -> Result<(), AllocError> {
        match slot.info() {
            // SAFETY: `alloc` took the object from ashlar for this size, and ostd gives it up.
            SlotInfo::SlabSlot(size) => unsafe { ashlar::kfree_sized(slot.as_ptr(), size) },
            SlotInfo::LargeSlot(_) => slot.dealloc_large(),
        }
        Ok(())
    }
}

/// The slot of a layout; marked `#[global_heap_allocator_slot_map]`. A power of two is naturally
/// aligned in ashlar.
const fn slot_info(layout: Layout) -> Option<SlotInfo> {
    let least = if layout.size() > layout.align() { layout.size() } else { layout.align() };
    match least {
        0..=8 => Some(SlotInfo::SlabSlot(8)),
        9..=2048 => Some(SlotInfo::SlabSlot(least.next_power_of_two())),
        _ if layout.align() > PAGE_SIZE => None,
        _ => Some(SlotInfo::LargeSlot(layout.size().next_multiple_of(PAGE_SIZE))),
    }
}

struct Cpus;

// SAFETY: interrupts are off in a section, so nothing else runs on this CPU.
unsafe impl ashlar::Platform for Cpus {
    fn cpus(&self) -> u32 {
        num_cpus() as u32
    }
    fn this_cpu(&self) -> u32 {
        current_cpu() as u32
    }
    fn this_thread(&self) -> usize {
        current_task()
    }
    fn enter(&self) -> u32 {
        let were_on = irq::is_local_enabled();
        irq::disable_local();
        let sections = local_sections();
        if sections.depth.replace(sections.depth.get() + 1) == 0 {
            sections.were_on.set(were_on);
        }
        current_cpu() as u32
    }
    unsafe fn leave(&self) {
        let sections = local_sections();
        sections.depth.set(sections.depth.get() - 1);
        if sections.depth.get() == 0 && sections.were_on.get() {
            irq::enable_local();
        }
    }
    // No `fence`: `inter_processor_call` allocates, and does not wait. Idle CPUs call
    // `ashlar::poll`.
}
