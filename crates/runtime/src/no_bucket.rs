//! Why no bucket holds a request: the dimension that is outside of all of them, or the bucket that is nearest.

use std::collections::BTreeSet;

use tenon_tensor::Tensor;

use crate::plan::TensorSlot;
use crate::pool::Bucket;
use crate::{Executable, RuntimeError};

/// A dimension of an input that a bucket does not take as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Untaken {
    input: usize,
    dimension: usize,
}

/// What a bucket takes along a dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Taken {
    Exactly(u64),
    AtMost(u64),
}

impl Taken {
    fn of(slot: &TensorSlot, dimension: usize) -> Taken {
        match slot.extent(dimension).as_number() {
            Some(size) => Taken::Exactly(size),
            None => Taken::AtMost(slot.shape[dimension]),
        }
    }

    fn holds(self, size: u64) -> bool {
        match self {
            Taken::Exactly(wanted) => wanted == size,
            Taken::AtMost(most) => size <= most,
        }
    }

    fn bound(self) -> u64 {
        let (Taken::Exactly(bound) | Taken::AtMost(bound)) = self;
        bound
    }
}

/// The refusal of inputs whose shapes no bucket holds, though their names, types and ranks are right.
///
/// `errors` are what the buckets say, in their order.
pub(crate) fn refusal(buckets: &[Bucket], inputs: &[(String, Tensor)], mut errors: Vec<RuntimeError>) -> RuntimeError {
    let is_shape =
        |error: &RuntimeError| matches!(error, RuntimeError::InputShape { .. } | RuntimeError::ExtentCapacity { .. });
    // What is wrong beside the sizes, or wrong among the inputs themselves, is wrong for every bucket.
    if let Some(other) = errors.iter().position(|error| !is_shape(error)) {
        return errors.swap_remove(other);
    }
    let Some(first) = buckets.first() else {
        return RuntimeError::UnknownInput { name: String::new(), known: "no bucket".to_owned() };
    };
    let request = Request { buckets, slots: &first.executable.plan().inputs, inputs };
    let outside: Vec<Untaken> =
        request.places().filter(|place| !buckets.iter().any(|bucket| request.takes(bucket, place))).collect();
    for place in &outside {
        if let Some(wanted) = request.fixed_by_model(place) {
            let slot = &request.slots[place.input];
            let found = request.shape(place.input).to_vec();
            let (name, expected) = (slot.name.clone(), slot.shape_text());
            return RuntimeError::InputShape { name, dimension: place.dimension, wanted, expected, found };
        }
    }
    let mut reasons: Vec<String> = Vec::new();
    let mut named = BTreeSet::new();
    for place in &outside {
        // Inputs that share a dimension are refused once.
        if request.name(place).is_none_or(|name| named.insert(name)) {
            reasons.push(format!("{}, and {}", request.described(place), request.taken(place)));
        }
    }
    if reasons.is_empty() {
        reasons.extend(request.nearest());
    }
    let shapes: Vec<_> = inputs.iter().map(|(name, tensor)| format!("{name} {:?}", tensor.shape())).collect();
    let names: Vec<_> = buckets.iter().map(|bucket| bucket.name.as_str()).collect();
    RuntimeError::NoBucket { shapes: shapes.join(", "), reason: reasons.join("; "), buckets: names.join("; ") }
}

struct Request<'a> {
    buckets: &'a [Bucket],
    /// Inputs of the first bucket; those of the others differ in sizes alone.
    slots: &'a [TensorSlot],
    inputs: &'a [(String, Tensor)],
}

impl Request<'_> {
    fn shape(&self, input: usize) -> &[usize] {
        let name = &self.slots[input].name;
        self.inputs.iter().find(|(given, _)| given == name).map_or(&[], |(_, tensor)| tensor.shape())
    }

    fn size(&self, place: &Untaken) -> u64 {
        self.shape(place.input)[place.dimension] as u64
    }

    /// All dimensions of the inputs that are given.
    fn places(&self) -> impl Iterator<Item = Untaken> {
        (0..self.slots.len()).flat_map(move |input| {
            let rank = self.shape(input).len().min(self.slots[input].shape.len());
            (0..rank).map(move |dimension| Untaken { input, dimension })
        })
    }

    fn slot<'b>(&self, executable: &'b Executable, place: &Untaken) -> Option<&'b TensorSlot> {
        let slot = executable.plan().inputs.get(place.input)?;
        (slot.shape.len() > place.dimension).then_some(slot)
    }

    /// What a bucket takes along a dimension.
    fn of(&self, bucket: &Bucket, place: &Untaken) -> Option<Taken> {
        Some(Taken::of(self.slot(&bucket.executable, place)?, place.dimension))
    }

    fn takes(&self, bucket: &Bucket, place: &Untaken) -> bool {
        self.of(bucket, place).is_some_and(|taken| taken.holds(self.size(place)))
    }

    /// The size of a dimension that no named dimension of the buckets can stand for.
    fn fixed_by_model(&self, place: &Untaken) -> Option<u64> {
        let taken: BTreeSet<_> = self.buckets.iter().map(|bucket| self.of(bucket, place)).collect();
        let only = match taken.into_iter().collect::<Vec<_>>().as_slice() {
            [Some(Taken::Exactly(size))] => *size,
            _ => return None,
        };
        if let Some(text) = self.text(place) {
            return text.parse::<u64>().is_ok().then_some(only);
        }
        let is_named = |name: &String| self.buckets.iter().all(|bucket| bucket.sizes.get(name) == Some(&only));
        (!self.buckets[0].sizes.keys().any(is_named)).then_some(only)
    }

    /// A dimension of an input as the buckets have it, over named dimensions.
    fn text(&self, place: &Untaken) -> Option<&str> {
        let dims = self.buckets[0].dims.get(&self.slots[place.input].name)?;
        dims.get(place.dimension).map(String::as_str)
    }

    /// The named dimension that a dimension of an input is: what the buckets say; else, as far as they show it, its extent's name, or the only name whose
    /// sizes go with the input's from bucket to bucket.
    fn name(&self, place: &Untaken) -> Option<String> {
        if let Some(name) = self.slots[place.input].extent(place.dimension).as_symbol() {
            return Some(name);
        }
        if let Some(text) = self.text(place)
            && self.buckets[0].sizes.contains_key(text)
        {
            return Some(text.to_owned());
        }
        let taken: Vec<_> = self.buckets.iter().map(|bucket| self.of(bucket, place)).collect();
        if taken.iter().all(|other| *other == taken[0]) {
            return None;
        }
        let goes_along = |name: &&String| {
            self.buckets
                .iter()
                .zip(&taken)
                .all(|(bucket, taken)| bucket.sizes.get(*name).copied() == taken.map(Taken::bound))
        };
        let mut names = self.buckets[0].sizes.keys().filter(goes_along);
        names.next().filter(|_| names.next().is_none()).cloned()
    }

    /// `dimension 0 of input `x` (`batch`) is 17`.
    fn described(&self, place: &Untaken) -> String {
        let name = self.name(place).map(|name| format!(" (`{name}`)")).unwrap_or_default();
        let input = &self.slots[place.input].name;
        format!("dimension {} of input `{input}`{name} is {}", place.dimension, self.size(place))
    }

    /// What all buckets together take along a dimension.
    fn taken(&self, place: &Untaken) -> String {
        let taken: BTreeSet<Taken> = self.buckets.iter().filter_map(|bucket| self.of(bucket, place)).collect();
        let exact: Vec<_> =
            taken.iter().filter(|taken| matches!(taken, Taken::Exactly(_))).map(|taken| taken.bound()).collect();
        let most = taken.iter().filter(|taken| matches!(taken, Taken::AtMost(_))).map(|taken| taken.bound()).max();
        let sizes: Vec<_> = exact.iter().map(ToString::to_string).collect();
        match most {
            Some(most) => format!("no bucket takes more than {most}"),
            None if self.buckets.len() == 1 => format!("the only bucket takes {}", sizes.join(", ")),
            None => format!("the buckets take {}", sizes.join(", ")),
        }
    }

    /// The bucket that the fewest dimensions, and these by the least, keep from holding the request, with what keeps it.
    fn nearest(&self) -> Option<String> {
        let distance = |bucket: &Bucket| {
            let untaken: Vec<Untaken> = self.places().filter(|place| !self.takes(bucket, place)).collect();
            let off = |place: &Untaken| {
                let bound = self.of(bucket, place).map_or(0, Taken::bound);
                u128::from(self.size(place).abs_diff(bound))
            };
            (untaken.len(), untaken.iter().map(off).sum::<u128>())
        };
        // Of several, the cheapest: buckets are in that order.
        let bucket = self.buckets.iter().min_by_key(|bucket| distance(bucket))?;
        let place = self.places().find(|place| !self.takes(bucket, place))?;
        let takes = match self.of(bucket, &place)? {
            Taken::Exactly(size) => size.to_string(),
            Taken::AtMost(most) => format!("at most {most}"),
        };
        Some(format!(
            "each size is in a bucket, but none has them together: in the nearest, {}, {}, which takes {takes}",
            bucket.name,
            self.described(&place)
        ))
    }
}
