// In Hermit, `LockedAllocator` is the global allocator; `mm::init` gives it the heap.
pub struct LockedAllocator(());

impl LockedAllocator {
    pub const fn new() -> Self {
        Self(())
    }

    /// # Safety
    /// The heap is mapped to its end, zeroed, and used by nothing else. No other core runs yet.
    pub unsafe fn init(&self, heap_bottom: *mut u8, heap_size: usize) {
        static mut SOURCE: MaybeUninit<ashlar::ArenaSource> = MaybeUninit::uninit();
        let heap = NonNull::new(heap_bottom).expect("a heap");
        let place = &raw mut SOURCE;
        // SAFETY: called once, by the core that boots; the memory is the caller's.
        let source = unsafe { (*place).write(ashlar::ArenaSource::new(heap, heap_size)) };
        assert_eq!(ashlar::start_on_cpus(source, &Cores), Ok(true));
    }
}

// SAFETY: all calls are passed on. Before `init` there is no memory.
unsafe impl GlobalAlloc for LockedAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let align = layout.align().max(CACHE_LINE);
        let Ok(layout) = Layout::from_size_align(layout.size(), align) else { return null_mut() };
        // SAFETY: the caller's promise.
        unsafe { ashlar::Ashlar.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise; the alignment was one of the same number above.
        unsafe {
            let align = layout.align().max(CACHE_LINE);
            ashlar::Ashlar.dealloc(ptr, Layout::from_size_align_unchecked(layout.size(), align));
        }
    }
}

struct Cores;

// SAFETY: interrupts are off in a section, so nothing else runs on this core.
unsafe impl ashlar::Platform for Cores {
    fn cpus(&self) -> u32 {
        possible_cpus()
    }
    fn this_cpu(&self) -> u32 {
        core_id()
    }
    fn this_thread(&self) -> usize {
        // Task numbers begin with 0.
        2 * (current_task_id() as usize + 1)
    }
    fn enter(&self) -> u32 {
        let were_on = interrupts::disable();
        let sections = local_sections();
        if sections.depth.replace(sections.depth.get() + 1) == 0 {
            sections.were_on.set(were_on);
        }
        core_id()
    }
    unsafe fn leave(&self) {
        let sections = local_sections();
        sections.depth.set(sections.depth.get() - 1);
        if sections.depth.get() == 0 && sections.were_on.get() {
            interrupts::enable();
        }
    }
    fn clock_ms(&self) -> Option<u64> {
        Some(get_timer_ticks() / 1000)
    }
    fn print(&self, line: &str) {
        print!("{line}");
    }
}
