//! What a fuzzer gives to the reader of windows; see `fuzz` in the repository.

use ashlar::window::{FORMAT, SIGNATURE, Window};

use super::memory::{Memory, ReadError, Reader};
use super::report::Report;
use super::shares::Shares;
use super::{page, prometheus, samples, snapshot, text};
use crate::profile::stacks::Stacks;

/// A process whose window and memory are these bytes. Memory repeats at every address.
struct Given<'a> {
    window: Vec<u8>,
    memory: &'a [u8],
}

const AT: u64 = 0x10_000;
const BUDGET: u64 = 1 << 20;
/// The end of the addresses of programs.
const END: u64 = 1 << 47;

impl Memory for Given<'_> {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), ReadError> {
        if at.checked_add(into.len() as u64).is_none_or(|end| end > END) {
            return Err(ReadError::Unmapped(at));
        }
        for (offset, byte) in into.iter_mut().enumerate() {
            let at = at + offset as u64;
            let in_window = at.checked_sub(AT).and_then(|at| self.window.get(at as usize)).copied();
            let elsewhere = || self.memory.get((at % self.memory.len().max(1) as u64) as usize).copied();
            *byte = in_window.or_else(elsewhere).unwrap_or(0);
        }
        Ok(())
    }
}

/// Reads a process, and shows it in every form.
pub(crate) fn read(bytes: &[u8]) {
    let mut window = SIGNATURE.to_vec();
    window.extend(FORMAT.to_ne_bytes());
    window.extend((Window::SIZE as u32).to_ne_bytes());
    let (body, memory) = bytes.split_at(bytes.len().min(Window::SIZE - window.len()));
    window.extend(body);
    window.resize(Window::SIZE, 0);
    let given = Given { window, memory };
    if let Ok(allocator) = snapshot::take(&given, AT, BUDGET) {
        let report = Report { allocators: vec![allocator], ..Report::default() };
        let _ = text::process(&report, true);
        let _ = page::of_report(&report);
        let _ = prometheus::render(&[report]);
    }
    let reader = Reader::new(&given, BUDGET);
    if let Ok(window) = snapshot::window(&reader, AT)
        && let Ok(Some(profile)) = samples::read(&reader, &window, 0)
    {
        let _ = Stacks::of(&profile);
        let mut shares = Shares::new(&reader, &window);
        for live in &profile.live {
            let _ = shares.of(live.address);
        }
    }
}
