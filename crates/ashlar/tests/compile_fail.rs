//! Programs that would be unsound do not compile: each file of `compile_fail` is one, with what the
//! compiler says beside it. `TRYBUILD=overwrite` writes that anew after a change of the compiler's
//! words.

#[test]
fn unsound_programs_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
