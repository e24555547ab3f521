//! Writes a profile in pprof's format: `profile.proto`, compressed by gzip.
//!
//! Live samples are written one by one, with the labels `cache`, `thread`, `bytes` and `age`. What
//! was allocated is written once for each site, with the label `cache`.

use std::collections::HashMap;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::encoding::{WireType, encode_key, encode_varint};

use super::code::Frame;
use super::read::Profile;
use super::stacks::{Stack, Stacks};

/// A message of protocol buffers in the making.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn number(&mut self, field: u32, value: u64) {
        if value != 0 {
            encode_key(field, WireType::Varint, &mut self.0);
            encode_varint(value, &mut self.0);
        }
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        encode_key(field, WireType::LengthDelimited, &mut self.0);
        encode_varint(bytes.len() as u64, &mut self.0);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u32, message: &Message) {
        self.bytes(field, &message.0);
    }

    /// A list of numbers, packed.
    fn numbers(&mut self, field: u32, numbers: &[u64]) {
        let mut packed = Vec::new();
        numbers.iter().for_each(|&number| encode_varint(number, &mut packed));
        self.bytes(field, &packed);
    }
}

/// The tables that samples refer to. All numbers but those of texts start at 1.
#[derive(Default)]
struct Tables {
    texts: Vec<String>,
    text_numbers: HashMap<String, u64>,
    functions: HashMap<(String, String), u64>,
    mappings: HashMap<u64, u64>,
    locations: HashMap<Place, u64>,
    /// The messages of the three, as they were made.
    out: Message,
}

#[derive(PartialEq, Eq, Hash)]
enum Place {
    Address(u64),
    /// Of no address: a note that frames are missing.
    Note(String),
}

/// The fields of `Profile`.
const SAMPLE_TYPE: u32 = 1;
const SAMPLE: u32 = 2;
const MAPPING: u32 = 3;
const LOCATION: u32 = 4;
const FUNCTION: u32 = 5;
const STRING_TABLE: u32 = 6;
const DURATION_NANOS: u32 = 10;
const PERIOD_TYPE: u32 = 11;
const PERIOD: u32 = 12;
const COMMENT: u32 = 13;
const DEFAULT_SAMPLE_TYPE: u32 = 14;

impl Tables {
    fn text(&mut self, text: &str) -> u64 {
        if let Some(&number) = self.text_numbers.get(text) {
            return number;
        }
        let number = self.texts.len() as u64;
        self.texts.push(text.to_owned());
        self.text_numbers.insert(text.to_owned(), number);
        number
    }

    fn function(&mut self, frame: &Frame) -> u64 {
        let key = (frame.function.clone(), frame.file.clone());
        if let Some(&number) = self.functions.get(&key) {
            return number;
        }
        let number = self.functions.len() as u64 + 1;
        let mut function = Message::default();
        function.number(1, number);
        let name = self.text(&frame.function);
        function.number(2, name);
        function.number(3, name);
        function.number(4, self.text(&frame.file));
        self.out.message(FUNCTION, &function);
        self.functions.insert(key, number);
        number
    }

    fn mapping(&mut self, stacks: &Stacks<'_>, address: u64) -> u64 {
        let Some(map) = stacks.symbols.map(address) else { return 0 };
        if let Some(&number) = self.mappings.get(&map.start) {
            return number;
        }
        let number = self.mappings.len() as u64 + 1;
        let mut mapping = Message::default();
        mapping.number(1, number);
        mapping.number(2, map.start);
        mapping.number(3, map.end);
        mapping.number(4, map.offset);
        mapping.number(5, self.text(&map.path));
        // It has functions, files, lines, and functions compiled into others.
        (7..=10).for_each(|field| mapping.number(field, 1));
        self.out.message(MAPPING, &mapping);
        self.mappings.insert(map.start, number);
        number
    }

    fn location(&mut self, stacks: &Stacks<'_>, place: Place, frames: &[Frame]) -> u64 {
        if let Some(&number) = self.locations.get(&place) {
            return number;
        }
        let number = self.locations.len() as u64 + 1;
        let mut location = Message::default();
        location.number(1, number);
        if let Place::Address(address) = place {
            location.number(2, self.mapping(stacks, address));
            location.number(3, address);
        }
        for frame in frames {
            let mut line = Message::default();
            line.number(1, self.function(frame));
            line.number(2, u64::from(frame.line));
            location.message(4, &line);
        }
        self.out.message(LOCATION, &location);
        self.locations.insert(place, number);
        number
    }

    fn locations(&mut self, stacks: &Stacks<'_>, stack: &Stack) -> Vec<u64> {
        let places = stack.addresses.iter().map(|&address| Some(address)).chain(core::iter::repeat(None));
        let located = stack.frames.iter().zip(places).map(|(frames, address)| {
            let note = || Place::Note(frames.first().map_or_else(String::new, |frame| frame.function.clone()));
            (address.map_or_else(note, Place::Address), frames)
        });
        located.map(|(place, frames)| self.location(stacks, place, frames)).collect()
    }

    fn type_of(&mut self, kind: &str, unit: &str) -> Message {
        let mut message = Message::default();
        message.number(1, self.text(kind));
        message.number(2, self.text(unit));
        message
    }

    fn label(&mut self, key: &str, text: &str) -> Message {
        let mut label = Message::default();
        label.number(1, self.text(key));
        label.number(2, self.text(text));
        label
    }

    fn number_label(&mut self, key: &str, number: u64, unit: &str) -> Message {
        let mut label = Message::default();
        label.number(1, self.text(key));
        label.number(3, number);
        label.number(4, self.text(unit));
        label
    }
}

/// Returns the file.
pub(super) fn encoded(profile: &Profile, stacks: &Stacks<'_>) -> io::Result<Vec<u8>> {
    let mut tables = Tables::default();
    tables.text("");
    let mut out = Message::default();
    for (kind, unit) in
        [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes")]
    {
        let kind = tables.type_of(kind, unit);
        out.message(SAMPLE_TYPE, &kind);
    }
    let places: Vec<Vec<u64>> = stacks.all.iter().map(|stack| tables.locations(stacks, stack)).collect();
    for (stack, places) in stacks.all.iter().zip(&places) {
        let mut sample = Message::default();
        sample.numbers(1, places);
        let memory = &stack.memory;
        sample.numbers(2, &[memory.allocated_objects as u64, memory.allocated_bytes as u64, 0, 0]);
        sample.message(3, &tables.label("cache", &stack.cache));
        out.message(SAMPLE, &sample);
    }
    for live in &profile.live {
        let mut sample = Message::default();
        sample.numbers(1, &places[live.site]);
        sample.numbers(2, &[0, 0, live.objects().round() as u64, live.bytes().round() as u64]);
        sample.message(3, &tables.label("cache", &stacks.all[live.site].cache));
        sample.message(3, &tables.label("thread", &live.name));
        sample.message(3, &tables.number_label("bytes", live.size, "bytes"));
        sample.message(3, &tables.number_label("age", live.age_ms, "milliseconds"));
        out.message(SAMPLE, &sample);
    }
    out.number(DURATION_NANOS, profile.lasted_ms.saturating_mul(1_000_000));
    let period = tables.type_of("space", "bytes");
    out.message(PERIOD_TYPE, &period);
    out.number(PERIOD, profile.rate);
    let counts = profile.counts;
    for (count, what) in
        [(counts.lost, "lost samples"), (counts.truncated, "truncated backtraces"), (counts.nested, "nested samples")]
    {
        if count > 0 {
            out.number(COMMENT, tables.text(&format!("{what}: {count}")));
        }
    }
    out.number(DEFAULT_SAMPLE_TYPE, tables.text("inuse_space"));
    out.0.extend_from_slice(&tables.out.0);
    tables.texts.iter().for_each(|text| out.bytes(STRING_TABLE, text.as_bytes()));
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(&out.0)?;
    gzip.finish()
}
