//! A process that lies: the bytes are its window and its memory. Reading it ends, without a panic,
//! and what was read can be shown in every form.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ashlar_tool::fuzz_window(bytes));
