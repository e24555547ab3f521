//! Checks that unsound programs do not compile. Each file of `compile_fail` is one, with the
//! compiler's messages beside it. `TRYBUILD=overwrite` rewrites these after a change of the
//! compiler.

#[test]
fn unsound_programs_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
