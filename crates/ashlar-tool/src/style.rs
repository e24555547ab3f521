//! How the pages look that the tool and the lab write: the part of their style sheets that is the
//! same.

/// Colours, text, cards, bars, figures and tables, light and dark. A page adds its own rules.
pub const BASE: &str = include_str!("base.css");
