//! What is passed: a head and a payload, as the kernel has for each message on a socket.
//!
//! The head is an object of the cache `skbuff_head_cache`, 232 bytes, aligned to cache lines; the
//! payload comes from kmalloc and holds, beside the bytes sent, what the kernel keeps behind them
//! (`skb_shared_info`). The sender allocates both and copies its bytes in; the receiver copies them
//! out and frees both. So each message is two allocations by one task and two frees by another,
//! first in, first out.
//!
//! Every message says who sent it and which one it is. A receiver knows what must come next from
//! each sender: a message that is lost, doubled, out of order or overwritten ends the run with an
//! error.

use crate::systems::heap::{HEAD, Heap, Kind, LINE};

/// Bytes that the kernel adds to a payload: `struct skb_shared_info`.
const SHARED_INFO: usize = 320;
/// Default size of a socket's buffer, in which heads and payloads count.
const SOCKET_BUFFER: usize = 212_992;

/// Bytes allocated for a payload of `size` bytes.
pub(crate) fn payload_bytes(size: usize) -> usize {
    size.next_multiple_of(LINE) + SHARED_INFO
}

/// Messages that fit into a socket's buffer when the largest payload has `size` bytes.
pub(crate) fn queue_length(size: usize) -> usize {
    (SOCKET_BUFFER / (HEAD.next_multiple_of(LINE) + payload_bytes(size))).max(1)
}

/// The kinds of objects for messages of `sizes`: the head, then a payload for each.
pub(crate) fn kinds(sizes: &[usize]) -> Vec<Kind> {
    let payload = |&size: &usize| Kind::kmalloc(payload_bytes(size));
    core::iter::once(Kind::head()).chain(sizes.iter().map(payload)).collect()
}

/// Which message it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    /// The sender, within its group.
    pub(crate) from: usize,
    /// Of this sender to this receiver.
    pub(crate) number: usize,
}

impl Tag {
    /// A word that no other message of the group has.
    fn word(self) -> u64 {
        (self.from as u64) << 48 | self.number as u64
    }

    /// The message that these bytes are of, if they are of one; messages shorter than a word say
    /// nothing.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut word = [0; 8];
        word.copy_from_slice(bytes.get(..8)?);
        let word = u64::from_le_bytes(word);
        let tag = Self { from: (word >> 48) as usize, number: (word & ((1 << 48) - 1)) as usize };
        tag.is(bytes).then_some(tag)
    }

    /// What the bytes of a message are: the word, again and again.
    pub(crate) fn fill(self, bytes: &mut [u8]) {
        let word = self.word().to_le_bytes();
        for part in bytes.chunks_mut(word.len()) {
            part.copy_from_slice(&word[..part.len()]);
        }
    }

    /// Whether `bytes` are those of this message.
    fn is(self, bytes: &[u8]) -> bool {
        let word = self.word().to_le_bytes();
        bytes.chunks(word.len()).all(|part| *part == word[..part.len()])
    }
}

/// What a head says.
#[derive(Clone, Copy)]
struct Head {
    payload: *mut u8,
    /// Place of the payload's size among those of the run.
    size: usize,
    tag: Tag,
}

/// A message on its way: the head's address.
#[derive(Debug)]
pub(crate) struct Message(*mut Head);

// SAFETY: a message is the only handle to its head and payload, which any thread may use and free.
unsafe impl Send for Message {}

/// Memory ended.
#[derive(Debug)]
pub(crate) struct OutOfMemory;

impl Message {
    /// Allocates a message and copies `bytes` in, whose length is the size at the place `size`.
    pub(crate) fn new(heap: &impl Heap, size: usize, tag: Tag, bytes: &[u8]) -> Result<Self, OutOfMemory> {
        let (head, payload) = (heap.alloc(0).cast::<Head>(), heap.alloc(1 + size));
        if head.is_null() || payload.is_null() {
            // SAFETY: what is not null was allocated just above, as these kinds.
            unsafe {
                if !head.is_null() {
                    heap.free(0, head.cast());
                }
                if !payload.is_null() {
                    heap.free(1 + size, payload);
                }
            }
            return Err(OutOfMemory);
        }
        // SAFETY: the payload's kind has room for all `bytes` (`kinds`), and the head for a `Head`,
        // at the alignment of a word, which every system gives to objects of that size; both are
        // ours alone.
        unsafe {
            payload.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            head.write(Head { payload, size, tag });
        }
        Ok(Self(head))
    }

    /// Copies the message out, frees it, and tells which one it was; `None` if its bytes are not
    /// those that were sent.
    pub(crate) fn take(self, heap: &impl Heap, sizes: &[usize], buffer: &mut [u8]) -> Option<Tag> {
        // SAFETY: `new` wrote the head, and it was not freed: this is the only handle, and it is
        // used up here.
        let head = unsafe { self.0.read() };
        let bytes = &mut buffer[..sizes[head.size]];
        // SAFETY: as above: `new` copied so many bytes to the payload. Both are freed once, as the
        // kinds that they are.
        unsafe {
            bytes.as_mut_ptr().copy_from_nonoverlapping(head.payload, bytes.len());
            heap.free(1 + head.size, head.payload);
            heap.free(0, self.0.cast());
        }
        head.tag.is(bytes).then_some(head.tag)
    }
}

/// What a receiver has had from each sender.
#[derive(Debug)]
pub(crate) struct Ledger(Vec<usize>);

impl Ledger {
    /// For so many senders.
    pub(crate) fn new(senders: usize) -> Self {
        Self(vec![0; senders])
    }

    /// Enters the next message; the error says what is wrong with it.
    pub(crate) fn enter(&mut self, tag: Option<Tag>) -> Result<(), String> {
        let Some(tag) = tag else { return Err("a message came with other bytes than were sent".to_owned()) };
        let next = self.0.get_mut(tag.from).ok_or_else(|| format!("a message from sender {}", tag.from))?;
        if tag.number != *next {
            return Err(format!("message {} of sender {} where {next} was due", tag.number, tag.from));
        }
        *next += 1;
        Ok(())
    }

    /// Whether each sender's messages have all come.
    pub(crate) fn is_complete(&self, of_each: usize) -> bool {
        self.0.iter().all(|&had| had == of_each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_belong_to_one_message() {
        let tag = Tag { from: 3, number: 7 };
        for size in [1, 7, 8, 100] {
            let mut bytes = vec![0; size];
            tag.fill(&mut bytes);
            assert!(tag.is(&bytes));
            assert_eq!(Tag::read(&bytes), (size >= 8).then_some(tag));
            bytes[size - 1] ^= 1;
            assert!(!tag.is(&bytes), "{size}");
        }
        let mut bytes = [0; 16];
        tag.fill(&mut bytes);
        assert!(!Tag { from: 7, number: 3 }.is(&bytes));
    }

    /// A heap whose objects all lie in one place, as an allocator's would that hands memory out
    /// twice.
    struct Twice(core::cell::UnsafeCell<[[u64; 64]; 2]>);

    // SAFETY: one thread uses it.
    unsafe impl Sync for Twice {}

    impl Heap for Twice {
        fn open(_kinds: &[Kind]) -> Result<Self, String> {
            Ok(Self(core::cell::UnsafeCell::new([[0; 64]; 2])))
        }

        fn alloc(&self, kind: usize) -> *mut u8 {
            self.0.get().cast::<u8>().wrapping_add(kind.min(1) * 512)
        }

        unsafe fn free(&self, _kind: usize, _object: *mut u8) {}
    }

    #[test]
    fn memory_that_is_handed_out_twice_is_noticed() {
        let heap = Twice::open(&[]).unwrap();
        let mut bytes = [0; 100];
        let mut send = |number| {
            let tag = Tag { from: 0, number };
            tag.fill(&mut bytes);
            Message::new(&heap, 0, tag, &bytes).unwrap()
        };
        let (first, second) = (send(0), send(1));
        let mut ledger = Ledger::new(1);
        let mut buffer = [0; 100];
        // Where the first message was the second one is now.
        assert!(ledger.enter(first.take(&heap, &[100], &mut buffer)).is_err());
        // It stays where it is until the end.
        let Message { .. } = second;
    }

    #[test]
    fn a_ledger_knows_what_must_come_next() {
        let mut ledger = Ledger::new(2);
        let tag = |from, number| Some(Tag { from, number });
        ledger.enter(tag(1, 0)).unwrap();
        ledger.enter(tag(0, 0)).unwrap();
        assert!(ledger.is_complete(1) && !ledger.is_complete(2));
        assert!(ledger.enter(tag(0, 0)).unwrap_err().contains("where 1 was due"), "doubled");
        assert!(ledger.enter(tag(1, 2)).unwrap_err().contains("message 2 of sender 1 where 1 was due"), "lost");
        assert!(ledger.enter(tag(2, 0)).is_err() && ledger.enter(None).unwrap_err().contains("other bytes"));
    }

    #[test]
    fn sizes_are_those_of_the_kernel() {
        assert_eq!(payload_bytes(100), 448);
        assert_eq!(queue_length(100), 302);
        assert_eq!(queue_length(1 << 20), 1);
        let kinds = kinds(&[100, 1500]);
        let taken = |kind: &Kind| (kind.size, kind.lines);
        assert_eq!(kinds.iter().map(taken).collect::<Vec<_>>(), [(232, true), (448, false), (1856, false)]);
    }
}
