//! The templates of docs/kernel.md for the allocator interfaces of Asterinas and Hermit, against
//! stand-ins for what these kernels have. `tests/docs.rs` compares the document with the files.
#![cfg(not(feature = "os"))]

#[path = "common/process.rs"]
mod common;

use common::child;

/// What both kernels keep for each CPU.
#[derive(Debug)]
struct Sections {
    depth: core::cell::Cell<u32>,
    were_on: core::cell::Cell<bool>,
}

thread_local! {
    static SECTIONS: Sections = const { Sections { depth: core::cell::Cell::new(0), were_on: core::cell::Cell::new(false) } };
    static ENABLED: core::cell::Cell<bool> = const { core::cell::Cell::new(true) };
}

fn local_sections() -> &'static Sections {
    // SAFETY: the thread of the test, which stands for the CPU, outlives its use.
    SECTIONS.with(|sections| unsafe { &*core::ptr::from_ref(sections) })
}

/// Returns zeroed memory for a heap.
fn heap(bytes: usize) -> *mut u8 {
    vec![0u8; bytes].leak().as_mut_ptr()
}

mod asterinas {
    use super::{ENABLED, local_sections};
    use core::alloc::Layout;
    use core::ptr::NonNull;

    /// Stands for `core::alloc::AllocError`, which is not stable.
    #[derive(Debug)]
    pub(super) struct AllocError;

    pub(super) const PAGE_SIZE: usize = 4096;

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) enum SlotInfo {
        SlabSlot(usize),
        LargeSlot(usize),
    }

    pub(super) struct HeapSlot {
        addr: NonNull<u8>,
        info: SlotInfo,
    }

    impl HeapSlot {
        /// # Safety
        /// The slot is free, and has the size.
        pub(super) unsafe fn new(addr: NonNull<u8>, info: SlotInfo) -> Self {
            Self { addr, info }
        }
        pub(super) fn alloc_large(size: usize) -> Result<Self, AllocError> {
            let layout = Layout::from_size_align(size, PAGE_SIZE).map_err(|_| AllocError)?;
            // SAFETY: the size is not 0.
            let addr = NonNull::new(unsafe { std::alloc::alloc(layout) }).ok_or(AllocError)?;
            Ok(Self { addr, info: SlotInfo::LargeSlot(size) })
        }
        pub(super) fn dealloc_large(self) {
            let SlotInfo::LargeSlot(size) = self.info else { panic!("not a large slot") };
            let layout = Layout::from_size_align(size, PAGE_SIZE).expect("that of `alloc_large`");
            // SAFETY: from `alloc_large`, with this layout.
            unsafe { std::alloc::dealloc(self.addr.as_ptr(), layout) };
        }
        pub(super) fn info(&self) -> SlotInfo {
            self.info
        }
        pub(super) fn as_ptr(&self) -> *mut u8 {
            self.addr.as_ptr()
        }
    }

    pub(super) trait GlobalHeapAllocator: Sync {
        fn alloc(&self, layout: Layout) -> Result<HeapSlot, AllocError>;
        fn dealloc(&self, slot: HeapSlot) -> Result<(), AllocError>;
    }

    fn num_cpus() -> usize {
        4
    }
    fn current_cpu() -> usize {
        1
    }
    fn current_task() -> usize {
        core::ptr::from_ref(local_sections()).addr()
    }
    mod irq {
        use super::ENABLED;
        pub(super) fn is_local_enabled() -> bool {
            ENABLED.get()
        }
        pub(super) fn disable_local() {
            ENABLED.set(false);
        }
        pub(super) fn enable_local() {
            ENABLED.set(true);
        }
    }

    include!("templates/asterinas.rs");

    /// Does what ostd's dispatcher does with each allocation.
    pub(super) fn exercise() {
        let bytes = 16 << 20;
        let memory = NonNull::new(super::heap(bytes)).expect("memory");
        // SAFETY: leaked, zeroed memory with no other user.
        let source = Box::leak(Box::new(unsafe { ashlar::ArenaSource::new(memory, bytes) }));
        assert_eq!(ashlar::start_on_cpus(source, &Cpus), Ok(true));
        for (size, align) in [(1, 1), (8, 8), (9, 1), (100, 64), (2048, 8), (2049, 8), (5000, 16), (64, 4096)] {
            let layout = Layout::from_size_align(size, align).expect("a layout");
            let required = slot_info(layout).expect("a slot");
            let slots: Vec<_> = (0..100).map(|_| Heap.alloc(layout).expect("memory")).collect();
            for slot in slots {
                assert_eq!(slot.info(), required);
                assert!(slot.as_ptr().addr().is_multiple_of(align));
                // SAFETY: `size` bytes that were just allocated.
                unsafe { slot.as_ptr().write_bytes(7, size) };
                Heap.dealloc(slot).expect("taken back");
            }
        }
        assert!(irq::is_local_enabled() && local_sections().depth.get() == 0);
    }
}

#[expect(unreachable_pub, reason = "public there")]
mod hermit {
    use super::{ENABLED, local_sections};
    use core::alloc::{GlobalAlloc, Layout};
    use core::mem::MaybeUninit;
    use core::ptr::{NonNull, null_mut};

    const CACHE_LINE: usize = 128;

    fn possible_cpus() -> u32 {
        2
    }
    fn core_id() -> u32 {
        0
    }
    fn current_task_id() -> i32 {
        0
    }
    /// Microseconds.
    fn get_timer_ticks() -> u64 {
        5_000_000
    }
    mod interrupts {
        use super::ENABLED;
        pub(super) fn disable() -> bool {
            ENABLED.replace(false)
        }
        pub(super) fn enable() {
            ENABLED.set(true);
        }
    }

    include!("templates/hermit.rs");

    pub(super) fn exercise() {
        static ALLOCATOR: LockedAllocator = LockedAllocator::new();
        let early = Layout::from_size_align(10, 1).expect("a layout");
        // SAFETY: the layout is not empty.
        assert!(unsafe { ALLOCATOR.alloc(early) }.is_null(), "memory before there is a heap");
        // SAFETY: leaked, zeroed memory with no other user.
        unsafe { ALLOCATOR.init(super::heap(16 << 20), 16 << 20) };
        for (size, align) in [(1, 1), (24, 8), (1000, 256), (70_000, 4096)] {
            let layout = Layout::from_size_align(size, align).expect("a layout");
            for _ in 0..100 {
                // SAFETY: the layout is not empty; what is allocated is written within it, and
                // freed once.
                unsafe {
                    let at = ALLOCATOR.alloc(layout);
                    assert!(!at.is_null() && at.addr().is_multiple_of(align.max(CACHE_LINE)));
                    at.write_bytes(7, size);
                    ALLOCATOR.dealloc(at, layout);
                }
            }
        }
        ashlar::poll();
        assert!(ENABLED.get() && local_sections().depth.get() == 0);
    }
}

#[test]
fn templates_serve_the_interfaces_of_other_kernels() {
    let test = "templates_serve_the_interfaces_of_other_kernels";
    for (kernel, exercise) in [("asterinas", asterinas::exercise as fn()), ("hermit", hermit::exercise)] {
        if let Some(outcome) = child(test, kernel, &[], exercise) {
            outcome.succeeded();
        }
    }
}
