//! Linear algebra over GF(2): vectors are bits of a `u64`, addition is xor.

/// A growing set of vectors, kept in echelon form, that can say how a vector is made of those put in.
///
/// Each vector carries a tag; the tag of a sum is the xor of the tags. Earlier vectors are preferred: a vector that depends on
/// earlier ones never takes part in an expression.
#[derive(Debug, Clone, Default)]
pub struct Span {
    /// Reduced vectors with their tags, by falling highest bit; no two have the same, none is zero.
    rows: Vec<(u64, u64)>,
}

impl Span {
    /// The span of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The span of `vectors`, tagged by their position (the first 64 of them).
    pub fn of(vectors: &[u64]) -> Self {
        let mut span = Self::new();
        for (i, &v) in vectors.iter().enumerate() {
            span.push(v, 1u64.checked_shl(i as u32).unwrap_or(0));
        }
        span
    }

    /// Reduces `vector` by the span; gives what is left and the tag of what was taken away.
    fn reduce(&self, mut vector: u64) -> (u64, u64) {
        let mut tag = 0;
        for &(row, row_tag) in &self.rows {
            // Rows are sorted by falling highest bit, so one pass suffices.
            if vector != 0
                && (vector ^ row) < vector
                && highest(vector) >= highest(row)
                && vector >> highest(row) & 1 == 1
            {
                vector ^= row;
                tag ^= row_tag;
            }
        }
        (vector, tag)
    }

    /// Adds `vector`. If it is already in the span, gives the tag of the sum of earlier vectors that equals it and leaves the span as it was.
    pub fn push(&mut self, vector: u64, tag: u64) -> Option<u64> {
        let (rest, taken) = self.reduce(vector);
        if rest == 0 {
            return Some(taken);
        }
        let at = self.rows.partition_point(|&(row, _)| highest(row) > highest(rest));
        self.rows.insert(at, (rest, tag ^ taken));
        None
    }

    /// The tag of the sum of vectors that equals `vector`, if there is one.
    pub fn express(&self, vector: u64) -> Option<u64> {
        let (rest, tag) = self.reduce(vector);
        (rest == 0).then_some(tag)
    }

    /// Whether `vector` is a sum of vectors put in.
    pub fn contains(&self, vector: u64) -> bool {
        self.reduce(vector).0 == 0
    }

    /// The number of independent vectors.
    pub fn rank(&self) -> u32 {
        self.rows.len() as u32
    }

    /// Independent vectors that span the same space.
    pub fn basis(&self) -> Vec<u64> {
        self.rows.iter().map(|&(row, _)| row).collect()
    }
}

fn highest(vector: u64) -> u32 {
    63 - vector.leading_zeros().min(63)
}

/// A matrix over GF(2), at most 64 by 64, as columns.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BitMatrix {
    rows: u32,
    columns: Vec<u64>,
}

impl BitMatrix {
    /// A matrix of `rows` rows with these columns; nothing if it is larger than 64 by 64 or a column has bits beyond `rows`.
    pub fn new(rows: u32, columns: Vec<u64>) -> Option<Self> {
        let fits = rows <= 64 && columns.len() <= 64 && columns.iter().all(|&c| rows == 64 || c >> rows == 0);
        fits.then_some(Self { rows, columns })
    }

    /// The identity of `size` (at most 64).
    pub fn identity(size: u32) -> Self {
        let size = size.min(64);
        Self { rows: size, columns: (0..size).map(|i| 1 << i).collect() }
    }

    /// The number of rows: bits of a result.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// The columns: what each bit of the argument contributes.
    pub fn columns(&self) -> &[u64] {
        &self.columns
    }

    /// The product with a vector. Bits beyond the number of columns contribute nothing.
    pub fn apply(&self, vector: u64) -> u64 {
        combine(&self.columns, vector)
    }

    /// `self` after `first`; nothing if the sizes do not fit.
    pub fn compose(&self, first: &Self) -> Option<Self> {
        (first.rows as usize == self.columns.len())
            .then(|| Self { rows: self.rows, columns: first.columns.iter().map(|&c| self.apply(c)).collect() })
    }

    /// Rows and columns exchanged.
    pub fn transpose(&self) -> Self {
        let columns =
            (0..self.rows).map(|r| self.columns.iter().enumerate().map(|(c, &v)| (v >> r & 1) << c).sum()).collect();
        Self { rows: self.columns.len() as u32, columns }
    }

    /// The dimension of the image.
    pub fn rank(&self) -> u32 {
        Span::of(&self.columns).rank()
    }

    /// A basis of the arguments that map to zero.
    pub fn kernel(&self) -> Vec<u64> {
        kernel(&self.columns)
    }

    /// The columns that are independent of those before them: a basis of the image.
    pub fn image(&self) -> Vec<u64> {
        let mut span = Span::new();
        self.columns.iter().copied().filter(|&c| span.push(c, 0).is_none()).collect()
    }

    /// An argument that maps to `value`, made of the earliest independent columns; nothing if there is none.
    pub fn solve(&self, value: u64) -> Option<u64> {
        Span::of(&self.columns).express(value)
    }

    /// A matrix `g` with `self · g · self = self`: the inverse where there is one, a right inverse where every value is reached.
    pub fn pseudo_inverse(&self) -> Self {
        let mut span = Span::of(&self.columns);
        // Vectors outside the image are completed by units that map to zero.
        for r in 0..self.rows {
            span.push(1 << r, 0);
        }
        let columns = (0..self.rows).map(|r| span.express(1 << r).unwrap_or(0)).collect();
        Self { rows: self.columns.len() as u32, columns }
    }

    /// The inverse; nothing if the matrix is not square or not of full rank.
    pub fn inverse(&self) -> Option<Self> {
        let square = self.rows as usize == self.columns.len();
        (square && self.rank() == self.rows).then(|| self.pseudo_inverse())
    }
}

/// A basis of the arguments that the matrix of these columns maps to zero. Each vector ends in the bit of a column that depends on
/// earlier ones, so that the vectors below bit `n` are a basis of the kernel of the first `n` columns.
pub(crate) fn kernel(columns: &[u64]) -> Vec<u64> {
    let mut span = Span::new();
    columns
        .iter()
        .enumerate()
        .filter_map(|(i, &c)| span.push(c, 1 << i).map(|combination| combination | 1 << i))
        .collect()
}

/// A basis of the vectors that lie in the spans of both lists.
pub(crate) fn intersection(a: &[u64], b: &[u64]) -> Vec<u64> {
    let a = Span::of(a).basis();
    let mut columns = a.clone();
    columns.extend(Span::of(b).basis());
    let common: Vec<u64> = kernel(&columns).iter().map(|&k| combine(&a, k)).collect();
    Span::of(&common).basis()
}

/// The vectors that, one after the other, add something to the span of `known`.
pub(crate) fn beyond(known: &[u64], vectors: &[u64]) -> Vec<u64> {
    let mut span = Span::of(known);
    vectors.iter().copied().filter(|&v| span.push(v, 0).is_none()).collect()
}

/// The xor of the columns that `index` selects.
pub(crate) fn combine(columns: &[u64], index: u64) -> u64 {
    columns.iter().enumerate().filter(|(i, _)| index >> i & 1 == 1).fold(0, |sum, (_, &c)| sum ^ c)
}

/// The xor of the columns that `index` selects, for 32-bit columns.
pub(crate) fn combine32(columns: &[u32], index: u32) -> u32 {
    columns.iter().enumerate().filter(|(i, _)| index >> i & 1 == 1).fold(0, |sum, (_, &c)| sum ^ c)
}

/// One term of a linear function of an index: `(index & mask) << shift`, or `>> -shift` where `shift` is negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShiftTerm {
    /// The bits of the index that take part.
    pub mask: u32,
    /// By how much they move to the left.
    pub shift: i32,
}

impl ShiftTerm {
    /// The term's value for an index.
    pub fn apply(&self, index: u32) -> u32 {
        let masked = index & self.mask;
        if self.shift >= 0 { masked << self.shift } else { masked >> -self.shift }
    }
}

/// The linear function whose value on bit `i` of the index is `bases[i]`, as terms to be combined by xor, least shift first: the
/// few and/shift/xor instructions that compute it.
pub fn shift_terms(bases: &[u32]) -> Vec<ShiftTerm> {
    let mut terms: Vec<ShiftTerm> = Vec::new();
    for (i, &basis) in bases.iter().enumerate().take(32) {
        for bit in (0..32).filter(|bit| basis >> bit & 1 == 1) {
            let shift = bit - i as i32;
            match terms.iter_mut().find(|t| t.shift == shift) {
                Some(term) => term.mask |= 1 << i,
                None => terms.push(ShiftTerm { mask: 1 << i, shift }),
            }
        }
    }
    terms.sort_by_key(|t| t.shift);
    terms
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matrices() -> impl Strategy<Value = BitMatrix> {
        (0u32..9, 0usize..9).prop_flat_map(|(rows, columns)| {
            prop::collection::vec(0u64..1 << rows, columns).prop_map(move |c| BitMatrix { rows, columns: c })
        })
    }

    proptest! {
        #[test]
        fn kernel_and_image_are_what_enumeration_finds(m in matrices()) {
            let arguments = 1u64 << m.columns.len();
            let zeros: Vec<u64> = (0..arguments).filter(|&x| m.apply(x) == 0).collect();
            let kernel = m.kernel();
            prop_assert_eq!(zeros.len(), 1 << kernel.len());
            let span = Span::of(&kernel);
            prop_assert!(zeros.iter().all(|&z| span.contains(z)));
            let mut values: Vec<u64> = (0..arguments).map(|x| m.apply(x)).collect();
            values.sort_unstable();
            values.dedup();
            prop_assert_eq!(values.len(), 1 << m.rank());
            prop_assert_eq!(m.image().len() as u32, m.rank());
            for value in 0..1u64 << m.rows {
                let solved = m.solve(value);
                prop_assert_eq!(solved.is_some(), values.contains(&value));
                if let Some(x) = solved {
                    prop_assert_eq!(m.apply(x), value);
                }
            }
        }

        #[test]
        fn pseudo_inverse_inverts(m in matrices()) {
            let g = m.pseudo_inverse();
            for x in 0..1u64 << m.columns.len() {
                prop_assert_eq!(m.apply(g.apply(m.apply(x))), m.apply(x));
            }
            if let Some(inverse) = m.inverse() {
                prop_assert_eq!(inverse.compose(&m), Some(BitMatrix::identity(m.rows)));
                prop_assert_eq!(m.compose(&inverse), Some(BitMatrix::identity(m.rows)));
            }
            prop_assert_eq!(m.transpose().transpose(), m.clone());
            prop_assert_eq!(m.transpose().rank(), m.rank());
        }

        #[test]
        fn intersections(a in matrices(), b in matrices()) {
            let common = Span::of(&intersection(a.columns(), b.columns()));
            let (a, b) = (Span::of(a.columns()), Span::of(b.columns()));
            for v in 0..256 {
                prop_assert_eq!(common.contains(v), a.contains(v) && b.contains(v));
            }
        }

        #[test]
        fn shift_terms_compute_the_map(bases in prop::collection::vec(0u32..1 << 12, 0..7)) {
            let terms = shift_terms(&bases);
            for index in 0..1u32 << bases.len() {
                let value = terms.iter().fold(0, |sum, t| sum ^ t.apply(index));
                prop_assert_eq!(value, combine32(&bases, index));
            }
        }
    }

    #[test]
    fn sizes_are_checked() {
        assert_eq!(BitMatrix::new(2, vec![4]), None);
        assert_eq!(BitMatrix::new(65, vec![]), None);
        assert!(BitMatrix::new(64, vec![u64::MAX]).is_some());
        assert_eq!(BitMatrix::identity(3).compose(&BitMatrix::identity(2)), None);
    }

    #[test]
    fn adjacent_bits_share_a_term() {
        assert_eq!(
            shift_terms(&[2, 4, 256, 512]),
            vec![ShiftTerm { mask: 3, shift: 1 }, ShiftTerm { mask: 12, shift: 6 }]
        );
    }
}
