//! A packet in memory: a head of 256 bytes, as the kernel's `struct sk_buff`, and a buffer for its
//! data.
//!
//! [`Skb`] owns both. It has no destructor, because it does not know its allocator: [`free`] and
//! [`free_bulk`] give it back.

use core::ptr::NonNull;

use crate::experiments::forward::args::MOST_BULK;
use crate::experiments::forward::child::pool::{HEAD, Pool};

/// Room before the frame, for headers that a tunnel would add.
const HEADROOM: usize = 64;
/// What the kernel keeps behind the data: `struct skb_shared_info`.
const SHARED_INFO: usize = 320;

/// The head. Fields that the forwarding step does not use are there because the kernel clears them.
#[derive(Debug)]
#[repr(C)]
struct Head {
    links: [usize; 2],
    device: u32,
    hop: u32,
    stamp: u64,
    control: [u64; 6],
    data: *mut u8,
    length: u32,
    truesize: u32,
    rest: [u64; 20],
}

const _: () = assert!(size_of::<Head>() == HEAD);

/// Bytes of the data buffer for frames of `size` bytes, as the kernel computes them.
pub(crate) const fn data_size(size: usize) -> usize {
    (HEADROOM + size).next_multiple_of(64) + SHARED_INFO
}

/// A packet.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Skb(NonNull<Head>);

// SAFETY: an `Skb` owns its memory as a box does; the thread that holds it alone reads and writes
// there.
unsafe impl Send for Skb {}

impl Skb {
    /// An empty packet with room for frames of `size` bytes; `None` when memory has ended.
    #[inline]
    pub(crate) fn new<P: Pool>(pool: &P, size: usize) -> Option<Self> {
        let head = NonNull::new(pool.head().cast::<Head>())?;
        let Some(data) = NonNull::new(pool.data(data_size(size))) else {
            // SAFETY: the head was allocated just above, and no other code has it.
            unsafe { pool.free_head(head.as_ptr().cast()) };
            return None;
        };
        // SAFETY: `head` is `HEAD` fresh bytes, aligned to 8 as every object of the allocators is:
        // a `Head` fits, and no other code has it. All bits zero is one. Behind the room for the
        // frame the buffer has `SHARED_INFO` bytes, by `data_size`.
        unsafe {
            head.write_bytes(0, 1);
            (*head.as_ptr()).data = data.as_ptr().add(HEADROOM);
            (*head.as_ptr()).truesize = (HEAD + data_size(size)) as u32;
            data.as_ptr().add(data_size(size) - SHARED_INFO).write_bytes(0, 32);
        }
        Some(Self(head))
    }

    /// Where a frame of up to the size that [`new`](Self::new) was told goes.
    #[inline]
    pub(crate) fn room(&self) -> *mut u8 {
        // SAFETY: the head is live and initialised from `new` on, and ours.
        unsafe { (*self.0.as_ptr()).data }
    }

    /// Says that a frame of `length` bytes lies in the room.
    ///
    /// # Safety
    /// It does: so many bytes of the room are initialised.
    #[inline]
    pub(crate) unsafe fn set_length(&mut self, length: usize) {
        // SAFETY: the head is live and ours.
        unsafe { (*self.0.as_ptr()).length = length as u32 };
    }

    /// Puts a copy of `frame` into the room.
    ///
    /// # Safety
    /// `frame` is no longer than the size that [`new`](Self::new) was told.
    #[inline]
    pub(crate) unsafe fn fill(&mut self, frame: &[u8]) {
        // SAFETY: the room has so many bytes, by the contract, and belongs to this packet alone.
        unsafe {
            self.room().copy_from_nonoverlapping(frame.as_ptr(), frame.len());
            self.set_length(frame.len());
        }
    }

    /// The frame.
    #[inline]
    pub(crate) fn frame(&mut self) -> &mut [u8] {
        // SAFETY: the head is live and ours; `length` bytes of the room are initialised
        // (`set_length`), and the borrow of `self` keeps others away.
        unsafe { core::slice::from_raw_parts_mut(self.room(), (*self.0.as_ptr()).length as usize) }
    }

    /// Frees the buffer; the head that is left.
    #[inline]
    fn release_data<P: Pool>(self, pool: &P) -> *mut u8 {
        // SAFETY: head and buffer are live and ours, and `data` is `HEADROOM` bytes into the
        // buffer. `truesize` is what `new` set.
        unsafe {
            let head = self.0.as_ptr();
            pool.free_data((*head).data.sub(HEADROOM), (*head).truesize as usize - HEAD);
            head.cast()
        }
    }
}

/// Gives one packet back (the kernel's `kfree_skb`).
#[inline]
pub(crate) fn free<P: Pool>(pool: &P, skb: Skb) {
    let head = skb.release_data(pool);
    // SAFETY: the head came from `pool.head` (`Skb::new`), and the packet was handed over.
    unsafe { pool.free_head(head) };
}

/// Gives packets back, the buffers one by one and the heads together (`kmem_cache_free_bulk`); at
/// most [`MOST_BULK`].
#[inline]
pub(crate) fn free_bulk<P: Pool>(pool: &P, skbs: impl Iterator<Item = Skb>) {
    let mut heads = [core::ptr::null_mut(); MOST_BULK];
    let mut count = 0;
    for (slot, skb) in heads.iter_mut().zip(skbs) {
        *slot = skb.release_data(pool);
        count += 1;
    }
    // SAFETY: the heads came from `pool.head` (`Skb::new`), and each packet was handed over.
    unsafe { pool.free_heads(&heads[..count]) };
}
