//! Indices that are known while a module is built, held against the dimensions that they address.
//!
//! What is not known before the model runs is safe in any case: `graph.gather` clamps such an index, `graph.scatter` leaves its update out.

use tenon_graph_dialect::{DimExpr, ErrorKind, Relation, SemanticError};

use crate::{GraphBuilder, Handle};

impl GraphBuilder<'_> {
    /// Refuses known indices that point outside of the dimensions `sizes`: of plain indices one dimension, of tuples (the last dimension of
    /// `indices`) one for each entry. With `from_end`, -1 is the last element; without it no index may be negative. Of a dimension whose size is
    /// not known yet it is demanded that it holds the indices. Indices that are not known pass.
    ///
    /// # Errors
    /// The first index outside, with its dimension's size.
    pub fn check_indices(
        &mut self,
        operator: &str,
        indices: Handle,
        sizes: &[DimExpr],
        from_end: bool,
    ) -> Result<(), SemanticError> {
        let Some(tensor) = self.tensor(indices).filter(|tensor| tensor.dtype().is_integer()) else { return Ok(()) };
        // Least and largest index into each dimension.
        let mut ranges: Vec<Option<(i64, i64)>> = vec![None; sizes.len()];
        for place in 0..if sizes.is_empty() { 0 } else { tensor.element_count() } {
            let Some(index) = tensor.get_i64(place) else { continue };
            let (low, high) = ranges[place % sizes.len()].get_or_insert((index, index));
            (*low, *high) = (index.min(*low), index.max(*high));
        }
        for (range, size) in ranges.into_iter().zip(sizes) {
            let Some((low, high)) = range else { continue };
            let least = match size.as_constant() {
                // Of an empty dimension the operator says itself that it has no element.
                Some(0) => continue,
                Some(known) => {
                    if from_end {
                        -known
                    } else {
                        0
                    }
                }
                None => {
                    if from_end {
                        i64::MIN
                    } else {
                        0
                    }
                }
            };
            let outside = |index: i64| index < least || size.as_constant().is_some_and(|known| index >= known);
            if let Some(index) = [high, low].into_iter().find(|index| outside(*index)) {
                let to = match size.as_constant() {
                    Some(known) => format!("{least} to {}", known - 1),
                    None => "0 on".to_owned(),
                };
                let message = format!("{index} points outside of a dimension of size {size}, which takes {to}");
                return Err(SemanticError::new(ErrorKind::Shape, operator, message));
            }
            // That there is one element at all is demanded by the operator.
            let (above, below) = (high.saturating_add(1), low.saturating_neg());
            let (needed, index) = if above >= below { (above, high) } else { (below, low) };
            if size.as_constant().is_none() && needed > 1 {
                let reason = format!("the index {index} points inside of its dimension");
                self.require(DimExpr::constant(needed), Relation::AtMost, size.clone(), &reason)?;
            }
        }
        Ok(())
    }
}
