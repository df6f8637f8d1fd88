//! Results whose size depends on values: a selection of places, as many as there turn out to be.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Function, Iota, ReduceKind, Scan, ScanKind, SearchSorted, SetDimensionSize};
use tenon_tensor::DType;

use super::importer::Handle;
use super::node::OpImport;
use crate::error::ImportError;

/// Chosen places of a list.
pub(crate) struct Selection {
    /// How many there are: a name, or a number where that is known.
    pub(crate) count: DimExpr,
    /// The places, ascending, i64.
    pub(crate) places: Handle,
    /// For each place of the list, how many are chosen up to it, itself included, i64.
    pub(crate) chosen_up_to: Handle,
}

impl OpImport<'_, '_, '_> {
    /// The first `size` (an i64 scalar that is known when the program runs) elements of 0, 1, 2, … below `most`, with the name of their number, or the
    /// number where it is known at once.
    pub(crate) fn counted(
        &mut self,
        base: &str,
        size: Handle,
        most: DimExpr,
    ) -> Result<(DimExpr, Handle), ImportError> {
        if let Some([count]) = self.importer.builder.dims(size).as_deref() {
            let iota = self.emit(Iota { dtype: DType::I64, shape: vec![count.clone()], axis: 0 }, &[])?;
            return Ok((count.clone(), iota));
        }
        let all = self.emit(Iota { dtype: DType::I64, shape: vec![most], axis: 0 }, &[])?;
        let name = self.importer.builder.extent_name(base);
        let extent = DimExpr::symbol(&name);
        let ranks = self.emit(SetDimensionSize { extent: extent.clone() }, &[all, size])?;
        self.importer.builder.set_extent(&name, size).map_err(|error| self.invalid(error.to_string()))?;
        Ok((extent, ranks))
    }

    /// As [`Self::counted`], of a number that nothing in the model bounds: the recipe says how many there are at most, as the size of the
    /// dimension `BASE_N_most`.
    pub(crate) fn counted_within_recipe(&mut self, base: &str, size: Handle) -> Result<Handle, ImportError> {
        let name = self.importer.builder.extent_name(base);
        let most = DimExpr::symbol(&format!("{name}_most"));
        let all = self.emit(Iota { dtype: DType::I64, shape: vec![most], axis: 0 }, &[])?;
        let ranks = self.emit(SetDimensionSize { extent: DimExpr::symbol(&name) }, &[all, size])?;
        self.importer.builder.set_extent(&name, size).map_err(|error| self.invalid(error.to_string()))?;
        Ok(ranks)
    }

    /// The places of a list of truth values that are true. `base` begins the name of their number.
    pub(crate) fn selection(&mut self, base: &str, flags: Handle) -> Result<Selection, ImportError> {
        let flags = self.cast(flags, DType::I64)?;
        let sum = Scan { kind: ScanKind::Sum, axis: 0, exclusive: false, reverse: false };
        let chosen_up_to = self.emit(sum, &[flags])?;
        let size = self.reduce(ReduceKind::Sum, flags, &[0], false)?;
        let most = self.extents(flags)[0].clone();
        let (count, ranks) = self.counted(base, size, most)?;
        let one = self.scalar(1.0, DType::I64)?;
        let wanted = self.apply(Function::Add, &[ranks, one])?;
        // The place with which the number of chosen ones reaches what is wanted.
        let places = self.emit(SearchSorted, &[chosen_up_to, wanted])?;
        Ok(Selection { count, places, chosen_up_to })
    }
}
