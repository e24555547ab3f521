//! The attribute [`macro@place`]: which part of the library a function or a table belongs to.
//!
//! The parser is written by hand, because `syn` would have to be compiled before the core in every
//! program that uses it, and finding functions in a stream of tokens takes a hundred lines.

use proc_macro::{Delimiter, Group, Span, TokenStream, TokenTree};

/// Puts functions, or a static, into a part of the library that lies apart.
///
/// | word | on | holds |
/// |---|---|---|
/// | `cold` | functions | start-up, options, reports, figures, engines that have to be asked for |
/// | `background` | functions | fork, and what the background thread and heaps of many MiB call |
/// | `large_data` | a static | a large table with a value |
/// | `large_bss` | a static | a large table of zeros |
///
/// On an `impl` block or an inline module the attribute applies to each function with a body in it.
/// Closures and functions of other crates that are compiled into ours have no attribute and stay
/// where they are: name a closure as a function if it matters.
///
/// Each item gets an input section of its own, such as `.text.ashlar.cold.parse`. A default linker
/// script merges them into `.text`, `.data` and `.bss`, and drops unused ones. On targets other
/// than Linux the attribute does nothing.
///
/// ```
/// use ashlar_macros::place;
///
/// struct Figures(u64);
///
/// #[place(cold)]
/// impl Figures {
///     const NONE: fn(u64) -> Figures = Figures;
///
///     /// The sum.
///     #[must_use]
///     pub const fn sum(&self, other: u64) -> u64 {
///         self.0 + other
///     }
/// }
///
/// #[place(background)]
/// mod fork {
///     pub(super) unsafe extern "C" fn prepare() {}
///     pub(super) mod table {
///         pub fn len<const N: usize>(_: [u8; N]) -> usize {
///             N
///         }
///     }
/// }
///
/// #[place(large_bss)]
/// static TABLE: [u64; 4096] = [0; 4096];
///
/// assert_eq!(Figures::NONE(1).sum(2), 3);
/// unsafe { fork::prepare() };
/// assert_eq!(fork::table::len([0; 3]), 3);
/// assert_eq!(TABLE[1], 0);
/// ```
///
/// An unknown word does not compile, and neither does a word on an item that it does not fit:
///
/// ```compile_fail
/// #[ashlar_macros::place(warm)]
/// fn parse() {}
/// ```
///
/// ```compile_fail
/// #[ashlar_macros::place(cold)]
/// static TABLE: [u64; 4096] = [0; 4096];
/// ```
///
/// ```compile_fail
/// #[ashlar_macros::place(large_bss)]
/// fn parse() {}
/// ```
#[proc_macro_attribute]
pub fn place(word: TokenStream, item: TokenStream) -> TokenStream {
    let section = match word.to_string().as_str() {
        "cold" => Section { prefix: ".text.ashlar.cold", keyword: "fn" },
        "background" => Section { prefix: ".text.ashlar.background", keyword: "fn" },
        "large_data" => Section { prefix: ".data.ashlar.large", keyword: "static" },
        "large_bss" => Section { prefix: ".bss.ashlar.large", keyword: "static" },
        _ => return error("place: expected `cold`, `background`, `large_data` or `large_bss`"),
    };
    let mut placed = 0;
    let item = section.place(item.into_iter().collect(), &mut placed);
    match placed {
        0 if section.keyword == "fn" => error("place: expected a function with a body, or a block with one in it"),
        0 => error("place: expected a static"),
        _ => item,
    }
}

/// Where items go, and which items may go there.
struct Section {
    prefix: &'static str,
    keyword: &'static str,
}

impl Section {
    /// Adds the attribute to every item in `tokens` that takes it, and counts them in `placed`.
    fn place(&self, tokens: Vec<TokenTree>, placed: &mut usize) -> TokenStream {
        let mut out: Vec<TokenTree> = Vec::new();
        // Where the present item begins, behind its attributes, and the word that says what it is.
        let mut start = 0;
        let mut kind = None;
        for (index, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Ident(word) if kind.is_none() => {
                    let word = word.to_string();
                    let lifetime = matches!(out.last(), Some(TokenTree::Punct(mark)) if mark.as_char() == '\'');
                    if word == self.keyword && !lifetime && self.takes(&tokens[index + 1..]) {
                        let name = tokens[index + 1..].iter().filter_map(name_of).find(|name| name != "mut");
                        let name = name.unwrap_or_default();
                        out.splice(start..start, self.attribute(&name));
                        *placed += 1;
                    }
                    // A constant may be a function, too: `const fn`.
                    if ["fn", "static", "impl", "mod", "struct", "enum", "union", "trait", "use"]
                        .contains(&word.as_str())
                    {
                        kind = Some(word);
                    }
                }
                // The body of an `impl` block or of a module, whose items are placed each.
                TokenTree::Group(group) if braces(token) => {
                    let inside = kind.as_deref().is_some_and(|kind| ["impl", "mod"].contains(&kind));
                    let body = if inside && self.keyword == "fn" {
                        let mut body =
                            Group::new(Delimiter::Brace, self.place(group.stream().into_iter().collect(), placed));
                        body.set_span(group.span());
                        TokenTree::Group(body)
                    } else {
                        token.clone()
                    };
                    out.push(body);
                    (start, kind) = (out.len(), None);
                    continue;
                }
                _ => {}
            }
            out.push(token.clone());
            // An attribute: brackets behind `#` or `#!`.
            let attribute = matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket)
                && out[start..out.len() - 1].iter().all(|token| matches!(token, TokenTree::Punct(_)));
            if ends(token) || attribute {
                (start, kind) = (out.len(), None);
            }
        }
        out.into_iter().collect()
    }

    /// Whether an item of the keyword goes on as one that can be placed: a function has a body.
    fn takes(&self, rest: &[TokenTree]) -> bool {
        // `fn(` is a type.
        let named = rest.first().and_then(name_of).is_some();
        named
            && (self.keyword == "static" || rest.iter().find(|token| ends(token) || braces(token)).is_some_and(braces))
    }

    /// The tokens of the attribute for the item of that name.
    fn attribute(&self, name: &str) -> TokenStream {
        let name = name.strip_prefix("r#").unwrap_or(name);
        let text = format!("#[cfg_attr(target_os = \"linux\", unsafe(link_section = \"{}.{name}\"))]", self.prefix);
        text.parse().expect("an attribute")
    }
}

/// The name in a token, if it is one.
fn name_of(token: &TokenTree) -> Option<String> {
    match token {
        TokenTree::Ident(name) => Some(name.to_string()),
        _ => None,
    }
}

/// Whether a token ends an item without a body.
fn ends(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(mark) if mark.as_char() == ';')
}

/// Whether a token is a block in braces.
fn braces(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
}

/// Makes the compiler say `text`.
fn error(text: &str) -> TokenStream {
    let text = format!("compile_error!({text:?});");
    text.parse::<TokenStream>()
        .expect("a macro call")
        .into_iter()
        .map(|mut token| {
            token.set_span(Span::call_site());
            token
        })
        .collect()
}
