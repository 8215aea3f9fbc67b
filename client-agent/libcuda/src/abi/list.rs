//! Lists: a pointer to the first of several, and beside it how many there are.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;

use super::handle::Handle;
use super::pointer::{InOut, Out, present};
use super::{Call, Word};
use crate::status::{Result, Status};

/// How many items the lists beside it have, or how many bytes the memory beside it.
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

    /// So many fewer items, down to none.
    pub(crate) fn less(self, fewer: usize) -> Self {
        Self {
            number: self.number.saturating_sub(fewer),
            ..self
        }
    }

    /// Of so many bytes, how many items of `size` bytes; `None` where a part would be left.
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

    /// The count as one of any list.
    pub(crate) fn whole(self) -> Count<'a> {
        Count {
            number: self.number as usize,
            call: PhantomData,
        }
    }
}

impl<'a> Count<'a, c_int> {
    /// The count as one of any list; a negative one is an error.
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

    /// Whether there is none.
    #[inline]
    pub(crate) fn is_null(&self) -> bool {
        self.first.is_null()
    }

    /// Refuses null, where it is an error even if there are no items.
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

    /// One of the items.
    ///
    /// # Safety
    /// The list is not null and has more than so many.
    #[inline]
    pub(crate) unsafe fn item(&self, at: usize) -> T {
        // SAFETY: the list has an item there, as the caller knows; programs may have packed it anyhow.
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

    /// Whether there is no list.
    pub(crate) fn is_null(&self) -> bool {
        self.first.is_null()
    }

    /// Writes as many items as there is room for; null is an error unless there are none.
    pub(crate) fn put(&self, count: Count<'a>, items: impl IntoIterator<Item = T>) -> Result {
        for (at, item) in items.into_iter().take(count.number).enumerate() {
            let first = present(self.first)?.cast_mut();
            // SAFETY: the count of the same call says for how many items there is room, and `at` is less.
            unsafe { Out::of_list(first.wrapping_add(at)) }.put(item)?;
        }
        Ok(())
    }
}

impl<'a, T: Copy> OutList<'a, T> {
    /// Writes an item as often as there are some, and as there is room; null is not wanted.
    pub(crate) fn repeat(&self, count: &InOut<'a, usize>, there: usize, item: T) -> Result {
        if self.is_null() {
            return Ok(());
        }
        let (number, call) = (count.take()?, PhantomData);
        self.put(Count { number, call }, std::iter::repeat_n(item, there))
    }
}

impl<'a, T> OutList<'a, Handle<T>> {
    /// Answers a question for a list as CUDA does: without a place the count becomes how many there are;
    /// with one it says how many have room, the list gets so many and zeros behind them, and the count
    /// becomes how many were written.
    pub(crate) fn answer(&self, count: &InOut<'a, usize>, found: &[Handle<T>]) -> Result {
        let room = self.fill(count, found)?;
        count.put(found.len().min(room))
    }

    /// As [`OutList::answer`], and the count stays: another list is to come. For how many there is room.
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

    /// An item, if it is there.
    pub(crate) fn get(&self, count: Count<'a>, at: usize) -> Option<T> {
        let place = self.place(count, at)?;
        // SAFETY: a place below the count of the same call is of an item, which the program wrote.
        Some(unsafe { place.read_unaligned() })
    }

    /// Changes an item, if it is there.
    pub(crate) fn set(&self, count: Count<'a>, at: usize, item: T) {
        if let Some(at) = self.place(count, at) {
            // SAFETY: the list has this item, and is one that the call may change.
            unsafe { Out::of_list(at) }.put_if(item);
        }
    }
}

/// Bytes of the program's that the call reads, or null.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Bytes<'a> {
    first: *const c_void,
    call: Call<'a>,
}

impl<'a> Bytes<'a> {
    /// Bytes whose place and number are told by no arguments of these types; null is an error.
    ///
    /// # Safety
    /// What is not null is of so many bytes, and they stay for so long.
    pub(crate) unsafe fn at(first: *const c_void, count: usize) -> Result<&'a [u8]> {
        let first = present(first)?.cast();
        // SAFETY: it is not null, and the caller knows that so many bytes are there to be read.
        Ok(unsafe { std::slice::from_raw_parts(first, count) })
    }

    /// The bytes; null is an error.
    pub(crate) fn slice(self, count: Count<'a>) -> Result<&'a [u8]> {
        // SAFETY: the count of the same call says how many bytes are there, and they stay during it.
        unsafe { Self::at(self.first, count.number) }
    }

    /// Where they begin.
    #[inline]
    pub(crate) fn address(self) -> *const c_void {
        self.first
    }
}

/// Memory of the program's that the call writes, or null.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Room<'a> {
    first: *mut c_void,
    call: Call<'a>,
}

impl<'a> Room<'a> {
    /// Memory whose place and size are told by no arguments of these types; null is an error.
    ///
    /// # Safety
    /// What is not null has so many bytes, and nobody else uses them for so long.
    pub(crate) unsafe fn at(first: *mut c_void, count: usize) -> Result<&'a mut [u8]> {
        let first = present(first)?.cast_mut().cast();
        // SAFETY: it is not null, and the caller knows that so many bytes are there for us alone.
        Ok(unsafe { std::slice::from_raw_parts_mut(first, count) })
    }

    /// Where it begins.
    #[inline]
    pub(crate) fn address(self) -> *mut c_void {
        self.first
    }
}

/// Memory of the program's that it uses no more from this call on, or null.
#[repr(transparent)]
pub(crate) struct Freed<'a> {
    first: *mut c_void,
    call: Call<'a>,
}

impl Freed<'_> {
    /// Where it begins, if there is any.
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
