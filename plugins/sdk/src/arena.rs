//! Memory of one call. A component is gone with its call, so nothing has to be given back: what a call needs is taken from an area
//! that is part of the component, one piece after the other, which spares the host from growing its memory. What does not fit is
//! taken from pages that are added at the end.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::{Cell, UnsafeCell};

/// Enough for a payment and a reply of some kilobytes.
const BYTES: usize = 96 * 1024;
/// Of WebAssembly.
const PAGE_BYTES: usize = 64 * 1024;
/// Added at a time, or as many as are needed.
const PAGES_MIN: usize = 16;

#[repr(align(16))]
struct Area(UnsafeCell<[u8; BYTES]>);

pub struct Arena {
    area: Area,
    /// Where the next piece begins, and where the pieces end; both 0 before the first.
    next: Cell<usize>,
    end: Cell<usize>,
}

// A component has one thread.
unsafe impl Sync for Arena {}

impl Arena {
    pub const fn new() -> Self {
        Self { area: Area(UnsafeCell::new([0; BYTES])), next: Cell::new(0), end: Cell::new(0) }
    }

    /// Goes on at another place.
    fn open(&self, start: usize, bytes: usize) {
        self.next.set(start);
        self.end.set(start + bytes);
    }

    /// Takes a piece where there is room for it.
    fn take(&self, layout: Layout) -> Option<usize> {
        let from = self.next.get().checked_next_multiple_of(layout.align())?;
        let to = from.checked_add(layout.size()).filter(|to| *to <= self.end.get())?;
        self.next.set(to);
        Some(from)
    }
}

impl Default for Arena {
    fn default() -> Self {
        Self::new()
    }
}

unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if self.end.get() == 0 {
            self.open(self.area.0.get() as usize, BYTES);
        }
        if let Some(piece) = self.take(layout) {
            return piece as *mut u8;
        }
        let pages = layout.size().saturating_add(layout.align()).div_ceil(PAGE_BYTES).max(PAGES_MIN);
        match grow(pages) {
            None => core::ptr::null_mut(),
            Some(start) => {
                self.open(start, pages * PAGE_BYTES);
                self.take(layout).map_or(core::ptr::null_mut(), |piece| piece as *mut u8)
            }
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // The last piece can be taken again.
        if pointer as usize + layout.size() == self.next.get() {
            self.next.set(pointer as usize);
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let from = pointer as usize;
        // The last piece grows where it is.
        if from + layout.size() == self.next.get() && from.saturating_add(size) <= self.end.get() {
            self.next.set(from + size);
            return pointer;
        }
        unsafe {
            let moved = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !moved.is_null() {
                core::ptr::copy_nonoverlapping(pointer, moved, layout.size().min(size));
            }
            moved
        }
    }
}

/// Where the new pages begin.
#[cfg(target_family = "wasm")]
fn grow(pages: usize) -> Option<usize> {
    let before = core::arch::wasm32::memory_grow(0, pages);
    (before != usize::MAX).then(|| before * PAGE_BYTES)
}

#[cfg(not(target_family = "wasm"))]
fn grow(_: usize) -> Option<usize> {
    None
}

/// By which the host puts arguments into the component's memory.
#[cfg(all(target_family = "wasm", not(any(test, feature = "std"))))]
#[unsafe(no_mangle)]
unsafe extern "C" fn cabi_realloc(old: *mut u8, old_bytes: usize, align: usize, bytes: usize) -> *mut u8 {
    if bytes == 0 {
        return align as *mut u8;
    }
    unsafe {
        let piece = match old_bytes {
            0 => alloc::alloc::alloc(Layout::from_size_align_unchecked(bytes, align)),
            _ => alloc::alloc::realloc(old, Layout::from_size_align_unchecked(old_bytes, align), bytes),
        };
        match piece.is_null() {
            true => core::arch::wasm32::unreachable(),
            false => piece,
        }
    }
}
