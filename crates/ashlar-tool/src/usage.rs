//! Errors of the command line in the one form that all errors have: "OPTION: what is wrong, what
//! was expected".

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Returns what `error` says in one line, without "error: " before it.
pub fn message(error: &Error) -> String {
    let text = |kind: ContextKind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(list)) => list.join(", "),
        _ => String::new(),
    };
    // "--rounds <N>", "<PROGRAM>..." and "[TEST]..." without what stands for values.
    let option = text(ContextKind::InvalidArg);
    let option = option
        .trim_start_matches(['<', '['])
        .split([' ', '[', '='])
        .next()
        .unwrap_or_default()
        .trim_matches(|c| "<>.[]".contains(c))
        .to_owned();
    match error.kind() {
        ErrorKind::InvalidValue if text(ContextKind::InvalidValue).is_empty() => format!("{option}: expected a value"),
        ErrorKind::InvalidValue => {
            let valid = text(ContextKind::ValidValue);
            format!("{option}: unknown value \"{}\", expected one of {valid}", text(ContextKind::InvalidValue))
        }
        ErrorKind::ValueValidation => {
            let value = text(ContextKind::InvalidValue);
            let source = core::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
            format!("{option}: {}", reason(&value, &source))
        }
        ErrorKind::UnknownArgument => {
            let close = text(ContextKind::SuggestedArg);
            let close = if close.is_empty() { "those that --help lists".to_owned() } else { close };
            format!("{option}: unknown option, expected {close}")
        }
        ErrorKind::InvalidSubcommand => {
            let command = text(ContextKind::InvalidSubcommand);
            format!("\"{command}\": unknown command, expected one of those that --help lists")
        }
        ErrorKind::MissingRequiredArgument => format!("{option}: required, but not given"),
        ErrorKind::ArgumentConflict => {
            let other = text(ContextKind::PriorArg);
            let other = if other == text(ContextKind::InvalidArg) { "itself".to_owned() } else { other };
            format!("{option}: cannot be given together with {other}")
        }
        _ => {
            let all = error.to_string();
            all.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
        }
    }
}

/// What is wrong with a value that a parser refused.
fn reason(value: &str, source: &str) -> String {
    if let Some((low, high)) = source.split_once(" is not in ").and_then(|(_, range)| range.split_once("..=")) {
        return format!("\"{value}\" is out of range, expected {low} to {high}");
    }
    match source {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            format!("\"{value}\" is not a number, expected one")
        }
        // Our own parsers name the value themselves.
        source if source.contains(&format!("`{value}`")) => source.to_owned(),
        source => format!("\"{value}\": {source}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_option_and_what_was_expected() {
        let cases: [(&[&str], &str); 9] = [
            (&["compare", "--rounds", "0", "x"], "--rounds: \"0\" is out of range, expected 1 to 1000"),
            (&["compare", "--rounds", "ten", "x"], "--rounds: \"ten\" is not a number, expected one"),
            (&["compare", "--rounds"], "--rounds: expected a value"),
            (&["compare", "--roundz", "5"], "--roundz: unknown option, expected --rounds"),
            (&["compare", "--rounds", "1", "--rounds", "2", "x"], "--rounds: cannot be given together with itself"),
            (&["compare"], "PROGRAM: required, but not given"),
            (&["run", "--stats=xml", "x"], "--stats: unknown value \"xml\", expected one of text, json"),
            (&["run", "--nonsense", "x"], "--nonsense: unknown option, expected those that --help lists"),
            (&["walk"], "\"walk\": unknown command, expected one of those that --help lists"),
        ];
        for (args, wanted) in cases {
            let error = crate::command().try_get_matches_from([&["ashlar"], args].concat()).unwrap_err();
            assert_eq!(message(&error), wanted, "{args:?}");
        }
    }
}
