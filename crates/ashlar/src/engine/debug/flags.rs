//! [`DebugFlags`]: which debugging a cache has.

/// Which debugging a cache has: the letters of the kernel's boot parameter `slub_debug`, and its
/// flags `SLAB_CONSISTENCY_CHECKS`, `SLAB_RED_ZONE` and so on.
///
/// ```
/// use ashlar::DebugFlags;
///
/// let flags = DebugFlags::RED_ZONE.with(DebugFlags::POISON);
/// assert!(flags.has(DebugFlags::POISON) && !flags.has(DebugFlags::TRACE));
/// assert_eq!(flags.to_string(), "ZP");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DebugFlags(u8);

impl DebugFlags {
    /// No debugging.
    pub const NONE: DebugFlags = DebugFlags(0);
    /// `F`: frees and freelists are checked.
    pub const CONSISTENCY_CHECKS: DebugFlags = DebugFlags(1);
    /// `Z`: bytes before and after each object show writes beyond it.
    pub const RED_ZONE: DebugFlags = DebugFlags(2);
    /// `P`: free objects are filled, which shows writes after a free, and fresh ones too, which
    /// shows reads of what was never written.
    pub const POISON: DebugFlags = DebugFlags(4);
    /// `U`: each object keeps who allocated and who freed it.
    pub const STORE_USER: DebugFlags = DebugFlags(8);
    /// `T`: a line on standard error for each allocation and each free.
    pub const TRACE: DebugFlags = DebugFlags(16);
    /// `A`: allocations fail as `ASHLAR_FAILSLAB` says.
    pub const FAILSLAB: DebugFlags = DebugFlags(32);
    /// What the kernel's `slub_debug` without letters means: `FZPU`.
    pub const DEFAULT: DebugFlags = DebugFlags(15);

    /// Each flag with its letter.
    pub(crate) const LETTERS: [(char, DebugFlags); 6] = [
        ('F', DebugFlags::CONSISTENCY_CHECKS),
        ('Z', DebugFlags::RED_ZONE),
        ('P', DebugFlags::POISON),
        ('U', DebugFlags::STORE_USER),
        ('T', DebugFlags::TRACE),
        ('A', DebugFlags::FAILSLAB),
    ];
    /// The flags that make objects larger.
    pub(crate) const METADATA: DebugFlags = DebugFlags(14);

    /// Returns these flags and those of `other`.
    #[must_use]
    pub const fn with(self, other: DebugFlags) -> DebugFlags {
        DebugFlags(self.0 | other.0)
    }

    /// Returns these flags but those of `other`.
    #[must_use]
    pub const fn without(self, other: DebugFlags) -> DebugFlags {
        DebugFlags(self.0 & !other.0)
    }

    /// Returns whether all flags of `other` are set.
    pub const fn has(self, other: DebugFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether no flag is set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    pub(crate) const fn of_bits(bits: u8) -> DebugFlags {
        DebugFlags(bits)
    }

    /// Returns the flags of letters; `None` if one stands for none. `-` takes back those before it.
    #[cfg(feature = "os")]
    #[doc(hidden)]
    #[must_use]
    #[place(cold)]
    pub fn of_letters(letters: &str) -> Option<DebugFlags> {
        letters.chars().try_fold(DebugFlags::NONE, |flags, letter| match letter {
            '-' => Some(DebugFlags::NONE),
            _ => Some(flags.with(Self::of_letter(letter)?)),
        })
    }

    /// Returns the flag of a letter, in either case.
    #[place(cold)]
    pub(crate) fn of_letter(letter: char) -> Option<DebugFlags> {
        let letter = letter.to_ascii_uppercase();
        Self::LETTERS.iter().find(|(known, _)| *known == letter).map(|&(_, flag)| flag)
    }
}

#[place(cold)]
impl core::fmt::Display for DebugFlags {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        use core::fmt::Write;
        if self.is_empty() {
            return f.write_str("-");
        }
        Self::LETTERS.iter().filter(|(_, flag)| self.has(*flag)).try_for_each(|(letter, _)| f.write_char(*letter))
    }
}
