//! Which modules of a crate depend on which, by their `use` lines and paths. A re-export leads on to where a name is defined.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use syn::visit::Visit;
use syn::{Item, ItemMod, UseTree, Visibility};

type Module = Vec<String>;

/// What one file has.
#[derive(Default)]
struct Source {
    defines: BTreeSet<String>,
    /// A name that is brought in, and the path that it stands for.
    brought: BTreeMap<String, Vec<String>>,
    /// Paths that the file's own code follows.
    follows: Vec<Vec<String>>,
}

/// Each circle of modules, as a line.
pub(crate) fn cycles(root: &Path) -> Vec<String> {
    let mut sources = BTreeMap::new();
    read(root, root, &mut sources);
    circles(&arrows(&sources))
}

fn read(root: &Path, folder: &Path, sources: &mut BTreeMap<Module, Source>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            read(root, &path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a source");
            sources.insert(module(root, &path), Source::parse(&text));
        }
    }
}

fn module(root: &Path, file: &Path) -> Module {
    let path = file.strip_prefix(root).expect("below the root").with_extension("");
    let mut module: Module = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if module.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        module.pop();
    }
    module
}

impl Source {
    fn parse(text: &str) -> Self {
        let file = syn::parse_file(text).expect("it compiles");
        let mut source = Self::default();
        for item in &file.items {
            source.define(item);
        }
        source.visit_file(&file);
        source
    }

    fn define(&mut self, item: &Item) {
        let name = match item {
            Item::Const(item) => &item.ident,
            Item::Enum(item) => &item.ident,
            Item::Fn(item) => &item.sig.ident,
            Item::Static(item) => &item.ident,
            Item::Struct(item) => &item.ident,
            Item::Trait(item) => &item.ident,
            Item::Type(item) => &item.ident,
            _ => return,
        };
        self.defines.insert(name.to_string());
    }

    fn bring(&mut self, tree: &UseTree, before: &[String], is_followed: bool) {
        let mut path = before.to_vec();
        let name = match tree {
            UseTree::Path(inner) => {
                path.push(inner.ident.to_string());
                return self.bring(&inner.tree, &path, is_followed);
            }
            UseTree::Group(group) => {
                return group.items.iter().for_each(|inner| self.bring(inner, before, is_followed));
            }
            UseTree::Name(name) if name.ident == "self" => path.last().cloned().unwrap_or_default(),
            UseTree::Name(name) => {
                path.push(name.ident.to_string());
                name.ident.to_string()
            }
            UseTree::Rename(renamed) => {
                path.push(renamed.ident.to_string());
                renamed.rename.to_string()
            }
            UseTree::Glob(_) => "*".to_owned(),
        };
        if is_followed {
            self.follows.push(path.clone());
        }
        self.brought.insert(name, path);
    }
}

impl<'a> Visit<'a> for Source {
    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        self.bring(&item.tree, &[], matches!(item.vis, Visibility::Inherited));
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        if path.segments.len() > 1 {
            self.follows.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        syn::visit::visit_path(self, path);
    }

    /// Who may see an item says nothing of what the item uses.
    fn visit_visibility(&mut self, _: &'a Visibility) {}

    /// Tests of a module may look anywhere.
    fn visit_item_mod(&mut self, item: &'a ItemMod) {
        if item.ident != "tests" {
            syn::visit::visit_item_mod(self, item);
        }
    }
}

fn arrows(sources: &BTreeMap<Module, Source>) -> BTreeMap<Module, BTreeSet<Module>> {
    let targets = |module: &Module, source: &Source| {
        let found =
            source.follows.iter().filter_map(|path| resolve(sources, &absolute(sources, module, path)?, 0));
        found.filter(|target| target != module).collect()
    };
    sources.iter().map(|(module, source)| (module.clone(), targets(module, source))).collect()
}

/// From the root of the crate; none where it leads out of it.
fn absolute(sources: &BTreeMap<Module, Source>, module: &Module, path: &[String]) -> Option<Vec<String>> {
    let first = path.first()?.as_str();
    if first == "crate" {
        return Some(path[1..].to_vec());
    }
    if first == "super" || first == "self" {
        let mut base = module.clone();
        let steps = path.iter().take_while(|part| *part == "super" || *part == "self").count();
        path[..steps].iter().filter(|part| *part == "super").for_each(|_| drop(base.pop()));
        return Some([base, path[steps..].to_vec()].concat());
    }
    let child = [module.clone(), vec![first.to_owned()]].concat();
    if sources.contains_key(&child) {
        return Some([module.clone(), path.to_vec()].concat());
    }
    // A name that is brought from a crate of the same name leads out of this one.
    let brought = sources[module].brought.get(first).filter(|brought| brought[0] != first)?;
    absolute(sources, module, &[brought.clone(), path[1..].to_vec()].concat())
}

/// The module in which what the path names is defined.
fn resolve(sources: &BTreeMap<Module, Source>, path: &[String], depth: usize) -> Option<Module> {
    let length = (0..=path.len()).rev().find(|length| sources.contains_key(&path[..*length]))?;
    let (module, rest) = (path[..length].to_vec(), &path[length..]);
    let Some(name) = rest.first().filter(|_| depth < 8) else { return Some(module) };
    let source = &sources[&module];
    match source.brought.get(name).filter(|_| !source.defines.contains(name)) {
        None => Some(module),
        Some(brought) => {
            let further = absolute(sources, &module, brought)?;
            resolve(sources, &[further, rest[1..].to_vec()].concat(), depth + 1)
        }
    }
}

fn reached<'a>(arrows: &'a BTreeMap<Module, BTreeSet<Module>>, from: &'a Module) -> BTreeSet<&'a Module> {
    let (mut seen, mut waiting) = (BTreeSet::new(), vec![from]);
    while let Some(next) = waiting.pop() {
        waiting.extend(arrows.get(next).into_iter().flatten().filter(|target| seen.insert(*target)));
    }
    seen
}

/// A module is in a circle when it reaches itself.
fn circles(arrows: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<String> {
    let named = |module: &Module| if module.is_empty() { "(root)".to_owned() } else { module.join("::") };
    let mut lines = BTreeSet::new();
    for (module, targets) in arrows {
        for target in targets.iter().filter(|target| reached(arrows, target).contains(module)) {
            lines.insert(format!("{} → {}", named(module), named(target)));
        }
    }
    lines.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crate_of(files: &[(&str, &str)]) -> Vec<String> {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        }
        cycles(folder.path())
    }

    #[test]
    fn a_circle_is_found_though_it_leads_through_a_re_export() {
        let found = crate_of(&[
            ("lib.rs", "mod a; mod b; pub use b::B;"),
            ("a.rs", "use crate::B; pub struct A(B);"),
            ("b.rs", "pub struct B; fn f() -> crate::a::A { loop {} }"),
        ]);
        assert_eq!(found, ["a → b", "b → a"]);
    }

    #[test]
    fn a_child_that_uses_what_its_parent_defines_is_in_a_circle_with_a_parent_that_calls_it() {
        let found = crate_of(&[
            ("lib.rs", "mod a;"),
            ("a/mod.rs", "mod b; pub struct A; fn f() { b::g() }"),
            ("a/b.rs", "use super::A; pub fn g() { let _: Option<A> = None; }"),
        ]);
        assert_eq!(found, ["a → a::b", "a::b → a"]);
    }

    #[test]
    fn arrows_that_point_down_are_none() {
        let found = crate_of(&[
            ("lib.rs", "mod a; mod b; pub use a::A;"),
            ("a.rs", "use crate::b::B; pub struct A(B); #[cfg(test)] mod tests { use super::*; }"),
            ("b.rs", "pub struct B; #[cfg(test)] mod tests { use crate::A; }"),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }
}
