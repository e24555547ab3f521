//! Each header compiles by itself and in any order, in C and in C++, without strict warnings.

mod common;

use common::{compile_text, root, text};

const LANGUAGES: [&str; 7] = ["c99", "c11", "c17", "gnu11", "c++11", "c++17", "c++20"];

/// The headers below `include`, as they are included.
fn headers() -> Vec<String> {
    let mut found = vec!["ashlar.h".to_owned()];
    for entry in std::fs::read_dir(root().join("include/linux")).expect("the headers can be read") {
        found.push(format!("linux/{}", entry.expect("an entry").file_name().to_string_lossy()));
    }
    found.sort();
    found
}

#[track_caller]
fn compiles(language: &str, source: &str) {
    let out = compile_text(language, source);
    assert!(out.status.success(), "{language}:\n{source}\n{}", text(&out.stderr));
}

#[test]
fn each_header_stands_alone() {
    let headers = headers();
    assert!(headers.len() >= 7, "{headers:?}");
    for language in LANGUAGES {
        for header in &headers {
            compiles(language, &format!("#include <{header}>\nint main(void) {{ return 0; }}\n"));
        }
    }
}

/// `<linux/slab.h>` has macros with any number of arguments, as the kernel's, and so needs C99.
#[test]
fn the_own_header_is_c89() {
    for language in ["c89", "c90", "gnu89"] {
        compiles(language, "#include <ashlar.h>\nint main(void) { return ashlar_mode() == 0; }\n");
    }
}

#[test]
fn headers_stand_twice_in_any_order_and_beside_the_systems() {
    let mut all = headers();
    let mut text = all.iter().map(|header| format!("#include <{header}>\n")).collect::<String>();
    text.push_str("#include <string.h>\n#include <sys/types.h>\n#include <linux/futex.h>\n#include <linux/stat.h>\n");
    all.reverse();
    text.extend(all.iter().map(|header| format!("#include <{header}>\n")));
    text.push_str("int main(void) { u32 a = 1; __u64 b = 2; return (int)(a - b); }\n");
    for language in LANGUAGES {
        compiles(language, &text);
    }
}

#[test]
fn the_macros_of_slab_h_work_in_c_and_cxx() {
    let source = "
#include <linux/slab.h>
struct thing { long number; char text[20]; };
static void construct(void *object) { (void)object; }
struct kmem_cache *by_type(void) { return KMEM_CACHE(thing, SLAB_PANIC | SLAB_HWCACHE_ALIGN); }
struct kmem_cache *by_field(void) { return KMEM_CACHE_USERCOPY(thing, 0, text); }
struct kmem_cache *by_five(void) { return kmem_cache_create(\"five\", 10, 8, 0, construct); }
struct kmem_cache *by_four(struct kmem_cache_args *args) { return kmem_cache_create(\"four\", 10, args, 0); }
struct kmem_cache *by_none(void) { return kmem_cache_create(\"none\", 10, NULL, 0); }
struct thing *one(void) { return kmalloc_obj(struct thing); }
struct thing *some(size_t n) { return kzalloc_objs(struct thing, n, GFP_NOWAIT); }
void *zeroed(void) { return kvcalloc(3, struct_size((struct thing *)0, text, 3), GFP_KERNEL | __GFP_NOWARN); }
int main(void) { return ZERO_OR_NULL_PTR(ZERO_SIZE_PTR) ? 0 : 1; }
";
    for language in LANGUAGES {
        compiles(language, source);
    }
}
