//! Lists: a pointer to the first item, with the number of items as another argument.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;

use super::handle::Handle;
use super::pointer::{InOut, Out, present};
use super::{Call, Word};
use crate::status::{Result, Status};

/// Number of items in the lists of the same call, or of bytes in the memory of the same call.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Count<'a, N = usize> {
    number: N,
    call: Call<'a>,
}

impl<'a> Count<'a> {
    /// The number.
    #[inline]
    pub(crate) fn number(self) -> usize {
        self.number
    }

    /// The count minus `fewer`, at least zero.
    pub(crate) fn less(self, fewer: usize) -> Self {
        Self {
            number: self.number.saturating_sub(fewer),
            ..self
        }
    }

    /// Number of items of `size` bytes in this many bytes; `None` if there is a remainder.
    pub(crate) fn divided(self, size: usize) -> Option<Self> {
        let number = self
            .number
            .is_multiple_of(size)
            .then(|| self.number / size)?;
        Some(Self { number, ..self })
    }
}

impl<'a> Count<'a, u32> {
    /// No items.
    pub(crate) const NONE: Self = Self {
        number: 0,
        call: PhantomData,
    };

    /// The count as that of any list.
    pub(crate) fn whole(self) -> Count<'a> {
        Count {
            number: self.number as usize,
            call: PhantomData,
        }
    }
}

impl<'a> Count<'a, c_int> {
    /// The count as that of any list; a negative one is an error.
    pub(crate) fn whole(self) -> Result<Count<'a>> {
        let number = usize::try_from(self.number).map_err(|_| Status::INVALID_VALUE)?;
        Ok(Count {
            number,
            call: PhantomData,
        })
    }
}

/// Items that the call reads, or null.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct List<'a, T> {
    first: *const T,
    call: Call<'a>,
}

impl<'a, T: Copy> List<'a, T> {
    /// No list.
    pub(crate) const NONE: Self = Self {
        first: std::ptr::null(),
        call: PhantomData,
    };

    /// True if the list is null.
    #[inline]
    pub(crate) fn is_null(&self) -> bool {
        self.first.is_null()
    }

    /// Refuses null, in calls where it is an error even without items.
    pub(crate) fn check(&self) -> Result {
        present(self.first).map(|_| ())
    }

    /// The items; null is an error unless there are none.
    pub(crate) fn items(self, count: Count<'a>) -> Result<impl Iterator<Item = T>> {
        if count.number > 0 {
            self.check()?;
        }
        // SAFETY: the list is not null, and the count of the same call is that of its items.
        Ok((0..count.number).map(move |at| unsafe { self.item(at) }))
    }

    /// Reads the item at index `at`.
    ///
    /// # Safety
    /// The list is not null and has more than `at` items.
    #[inline]
    pub(crate) unsafe fn item(&self, at: usize) -> T {
        // SAFETY: the caller knows that the list has an item at `at`; programs may have packed it
        // without alignment.
        unsafe { self.first.add(at).read_unaligned() }
    }
}

/// Items that the call writes, or null.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct OutList<'a, T> {
    first: *mut T,
    call: Call<'a>,
}

impl<'a, T: Copy> OutList<'a, T> {
    /// No list.
    pub(crate) const NONE: Self = Self {
        first: std::ptr::null_mut(),
        call: PhantomData,
    };

    /// True if the list is null.
    pub(crate) fn is_null(&self) -> bool {
        self.first.is_null()
    }

    /// Writes as many items as fit; null is an error unless there are no items.
    pub(crate) fn put(&self, count: Count<'a>, items: impl IntoIterator<Item = T>) -> Result {
        for (at, item) in items.into_iter().take(count.number).enumerate() {
            let first = present(self.first)?.cast_mut();
            // SAFETY: the count of the same call is the room in items, and `at` is less.
            unsafe { Out::of_list(first.wrapping_add(at)) }.put(item)?;
        }
        Ok(())
    }
}

impl<'a, T: Copy> OutList<'a, T> {
    /// Writes an item `there` times, as far as there is room; null means that it is not wanted.
    pub(crate) fn repeat(&self, count: &InOut<'a, usize>, there: usize, item: T) -> Result {
        if self.is_null() {
            return Ok(());
        }
        let (number, call) = (count.take()?, PhantomData);
        self.put(Count { number, call }, std::iter::repeat_n(item, there))
    }
}

impl<'a, T> OutList<'a, Handle<T>> {
    /// Answers a question for a list as CUDA does. If the list is null, the count becomes the
    /// number of items found. Otherwise the count says how many items have room. The items are
    /// written, followed by zeros, and the count becomes the number written.
    pub(crate) fn answer(&self, count: &InOut<'a, usize>, found: &[Handle<T>]) -> Result {
        let room = self.fill(count, found)?;
        count.put(found.len().min(room))
    }

    /// Same as [`OutList::answer`], but leaves the count, because another list follows. Returns the
    /// room in items.
    pub(crate) fn fill(&self, count: &InOut<'a, usize>, found: &[Handle<T>]) -> Result<usize> {
        let number = count.take()?;
        if self.is_null() {
            return Ok(usize::MAX);
        }
        let call = PhantomData;
        let padded = found.iter().copied().chain(std::iter::repeat(Handle::NULL));
        self.put(Count { number, call }, padded)?;
        Ok(number)
    }
}

/// Items that the call reads and changes, or null.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct InOutList<'a, T> {
    first: *mut T,
    call: Call<'a>,
}

impl<'a, T: Copy> InOutList<'a, T> {
    /// No list.
    pub(crate) const NONE: Self = Self {
        first: std::ptr::null_mut(),
        call: PhantomData,
    };

    fn place(&self, count: Count<'a>, at: usize) -> Option<*mut T> {
        let is_there = !self.first.is_null() && at < count.number;
        is_there.then(|| self.first.wrapping_add(at))
    }

    /// Returns an item, if the list has it.
    pub(crate) fn get(&self, count: Count<'a>, at: usize) -> Option<T> {
        let place = self.place(count, at)?;
        // SAFETY: an index below the count of the same call is that of an item, which the program
        // wrote.
        Some(unsafe { place.read_unaligned() })
    }

    /// Changes an item, if the list has it.
    pub(crate) fn set(&self, count: Count<'a>, at: usize, item: T) {
        if let Some(at) = self.place(count, at) {
            // SAFETY: the list has this item, and the call may change it.
            unsafe { Out::of_list(at) }.put_if(item);
        }
    }
}

/// Bytes of the program that the call reads, or null.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Bytes<'a> {
    first: *const c_void,
    call: Call<'a>,
}

impl<'a> Bytes<'a> {
    /// Makes a slice of bytes that are not described by arguments of these types; null is an error.
    ///
    /// # Safety
    /// If it is not null, it points to `count` bytes that stay valid for `'a`.
    pub(crate) unsafe fn at(first: *const c_void, count: usize) -> Result<&'a [u8]> {
        let first = present(first)?.cast();
        // SAFETY: it is not null, and the caller knows that `count` bytes are there to be read.
        Ok(unsafe { std::slice::from_raw_parts(first, count) })
    }

    /// Returns the bytes; null is an error.
    pub(crate) fn slice(self, count: Count<'a>) -> Result<&'a [u8]> {
        // SAFETY: the count of the same call says how many bytes are there, and they stay during
        // it.
        unsafe { Self::at(self.first, count.number) }
    }

    /// Address of the first byte.
    #[inline]
    pub(crate) fn address(self) -> *const c_void {
        self.first
    }
}

/// Memory of the program that the call writes, or null.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Room<'a> {
    first: *mut c_void,
    call: Call<'a>,
}

impl<'a> Room<'a> {
    /// Makes a slice of memory that is not described by arguments of these types; null is an error.
    ///
    /// # Safety
    /// If it is not null, it points to `count` bytes that have no other user for `'a`.
    pub(crate) unsafe fn at(first: *mut c_void, count: usize) -> Result<&'a mut [u8]> {
        let first = present(first)?.cast_mut().cast();
        // SAFETY: it is not null, and the caller knows that `count` bytes are there for us alone.
        Ok(unsafe { std::slice::from_raw_parts_mut(first, count) })
    }

    /// Address of the first byte.
    #[inline]
    pub(crate) fn address(self) -> *mut c_void {
        self.first
    }
}

/// Memory that the program no longer uses from this call on, or null.
#[repr(transparent)]
pub(crate) struct Freed<'a> {
    first: *mut c_void,
    call: Call<'a>,
}

impl Freed<'_> {
    /// Address of the first byte, if not null.
    pub(crate) fn address(&self) -> Option<usize> {
        present(self.first).ok().map(|first| first as usize)
    }
}

impl<N: Word> Word for Count<'_, N> {
    #[inline]
    fn word(&self) -> u64 {
        self.number.word()
    }
}

impl<T> Word for List<'_, T> {
    #[inline]
    fn word(&self) -> u64 {
        self.first as u64
    }
}

impl<T> Word for OutList<'_, T> {
    #[inline]
    fn word(&self) -> u64 {
        self.first as u64
    }
}

impl<T> Word for InOutList<'_, T> {
    #[inline]
    fn word(&self) -> u64 {
        self.first as u64
    }
}

impl Word for Bytes<'_> {
    #[inline]
    fn word(&self) -> u64 {
        self.first as u64
    }
}

impl Word for Room<'_> {
    #[inline]
    fn word(&self) -> u64 {
        self.first as u64
    }
}

impl Word for Freed<'_> {
    #[inline]
    fn word(&self) -> u64 {
        self.first as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handles<const N: usize>(numbers: [usize; N]) -> [Handle<()>; N] {
        numbers.map(Handle::new)
    }

    fn list(items: &mut [Handle<()>]) -> OutList<'_, Handle<()>> {
        let first = items.as_mut_ptr();
        let call = PhantomData;
        OutList { first, call }
    }

    fn count<'c>(number: usize) -> Count<'c> {
        let call = PhantomData;
        Count { number, call }
    }

    #[test]
    fn a_list_gets_what_there_is_and_zeros_and_the_count_says_how_many() {
        let (mut items, mut room) = (handles([9; 4]), 3);
        let there = InOut::of_test(&mut room);
        list(&mut items)
            .answer(&there, &handles([5, 6]))
            .expect("answered");
        assert_eq!((items, room), (handles([5, 6, 0, 9]), 2));
        let there = InOut::of_test(&mut room);
        list(&mut items)
            .answer(&there, &handles([1, 2, 3]))
            .expect("answered");
        assert_eq!((items, room), (handles([1, 2, 0, 9]), 2));
    }

    #[test]
    fn without_a_list_the_count_says_how_many_there_are() {
        let first = std::ptr::null_mut();
        let mut room = 0;
        let call = PhantomData;
        OutList { first, call }
            .answer(&InOut::of_test(&mut room), &handles([5, 6]))
            .expect("answered");
        assert_eq!(room, 2);
        let call = PhantomData;
        let none = OutList { first, call };
        assert_eq!(none.put(count(0), handles([1])), Ok(()));
        assert_eq!(none.put(count(1), handles([1])), Err(Status::INVALID_VALUE));
        let items = List::<u8>::NONE.items(count(1)).map(Iterator::count);
        assert_eq!(items, Err(Status::INVALID_VALUE));
    }

    #[test]
    fn only_places_of_the_list_are_read_and_changed() {
        let mut items = [1, 2, 3];
        let first = items.as_mut_ptr();
        let call = PhantomData;
        let list = InOutList { first, call };
        list.set(count(2), 1, 7);
        list.set(count(2), 2, 7);
        assert_eq!(list.get(count(2), 1), Some(7));
        assert_eq!(list.get(count(2), 2), None);
        assert_eq!(items, [1, 7, 3]);
    }
}
