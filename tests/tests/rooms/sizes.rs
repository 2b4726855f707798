//! How long a file and a function may be.

use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::Span;
use syn::visit::Visit;

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 60;

pub(super) fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("an entry").path();
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The functions of a file that are too long, with their lines.
#[derive(Default)]
struct Long(Vec<(String, usize)>);

impl Long {
    fn look(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let (first, last): (Span, Span) = (signature.fn_token.span, block.brace_token.span.close());
        let lines = last.end().line - first.start().line + 1;
        if lines > FUNCTION_LINES_MAX {
            self.0.push((signature.ident.to_string(), lines));
        }
    }
}

impl<'a> Visit<'a> for Long {
    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.look(&item.sig, &item.block);
        syn::visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.look(&item.sig, &item.block);
        syn::visit::visit_impl_item_fn(self, item);
    }
}

/// One that nobody declares is not compiled, and its tests do not run.
#[test]
fn each_file_of_a_test_target_is_declared() {
    let targets = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut forgotten = Vec::new();
    for target in fs::read_dir(targets).expect("targets").map(|entry| entry.expect("an entry").path()) {
        let mut files = Vec::new();
        if target.is_dir() {
            sources(&target, &mut files);
        }
        let all: String = files.iter().map(|path| fs::read_to_string(path).expect("a source")).collect();
        forgotten.extend(files.into_iter().filter(|path| {
            let name = path.file_stem().expect("a name").to_string_lossy();
            name != "main" && name != "mod" && !all.contains(&format!("mod {name};"))
        }));
    }
    assert_eq!(forgotten, Vec::<PathBuf>::new());
}

#[test]
fn files_and_functions_fit_where_one_reads_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for folder in ["host", "plugins", "tests/src", "tests/tests", "tests/guests"] {
        sources(&root.join(folder), &mut files);
    }
    assert!(files.len() > 300, "the sources are there");
    let mut problems = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).expect("a source");
        let name = path.strip_prefix(&root).expect("below the root").display().to_string();
        let lines = text.lines().count();
        if lines > FILE_LINES_MAX {
            problems.push(format!("{name} has {lines} lines, expected {FILE_LINES_MAX} at most"));
        }
        let mut long = Long::default();
        long.visit_file(&syn::parse_file(&text).unwrap_or_else(|error| panic!("{name}: {error}")));
        problems.extend(long.0.into_iter().map(|(function, lines)| {
            format!("{function} in {name} has {lines} lines, expected {FUNCTION_LINES_MAX} at most")
        }));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// A long function in SQL says in its first lines why it was not cut.
#[test]
fn a_function_in_sql_that_is_long_says_why() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations/functions");
    let mut problems = Vec::new();
    for room in fs::read_dir(folder).expect("the functions") {
        for file in fs::read_dir(room.expect("a room").path()).expect("a room") {
            let path = file.expect("a file").path();
            let text = fs::read_to_string(&path).expect("a text");
            let body = text.split("comment on ").next().unwrap_or_default();
            let lines = body.lines().filter(|line| !line.trim_start().starts_with("--")).count();
            if lines > FUNCTION_LINES_MAX && !text.starts_with("-- Longer than a screen") {
                problems.push(format!(
                    "{} has {lines} lines, and does not begin with \"-- Longer than a screen\" and the reason",
                    path.display()
                ));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
