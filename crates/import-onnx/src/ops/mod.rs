//! The importers of operators: one file a family, one line each in `table`.
//!
//! An importer is given a node and emits operations of the graph dialect. It reads every attribute that its version of the operator has;
//! after it returns, an attribute that was not read is refused.

mod activation;
mod arg_reduce;
mod attention;
mod cast;
mod causal_convolution;
mod center_crop_pad;
mod classical;
mod col2im;
mod concat;
mod constant;
mod control;
mod convolution;
mod cumulative;
mod deform_conv;
mod determinant;
mod dropout;
mod einsum;
mod elementwise;
mod fill;
mod flex_attention;
mod fourier;
mod gather;
mod grid_sample;
mod heads;
mod integer_product;
mod linear_attention;
mod loss;
mod matmul;
mod mel_weight_matrix;
mod microsoft;
mod non_max_suppression;
mod normalization;
mod one_hot;
mod pad;
mod padding;
mod pool;
mod quantize;
mod random;
mod recurrent;
mod reduce;
mod reshape;
mod resize;
mod resize_antialias;
mod reverse_sequence;
mod roi_align;
mod rotary_embedding;
mod sampling;
mod scatter;
mod scope;
mod selection;
mod sequence;
mod shape;
mod slice;
mod softmax;
mod space_depth;
mod split;
mod table;
mod tensor_scatter;
mod tf_idf;
mod top_k;
mod training;
mod transpose;
mod tree_ensemble;
mod unique;
mod unpool;
mod variadic;
mod window_function;

use crate::error::ImportError;
use crate::import::node::{OpImport, Outputs};
use crate::node::Node;

pub use table::{SupportedOperator, operator_table, supported_operators};

/// An importer of one operator.
pub(crate) type Import = for<'i, 'n, 'm> fn(&mut OpImport<'i, 'n, 'm>) -> Outputs;

/// The table's row for a node, and the version of the operator that holds in the node's operator set.
pub(crate) fn find(node: &Node) -> Result<(&'static table::Row, i64), ImportError> {
    let site = || Box::new(node.site.clone());
    let row = table::ROWS.iter().find(|row| row.name == node.op_type() && row.domain == node.domain());
    let row = row.ok_or_else(|| match scope::reason(node.domain(), node.op_type()) {
        Some(reason) => ImportError::OutOfScope { site: site(), reason },
        None => ImportError::UnknownOperator { site: site() },
    })?;
    let version = node.version;
    let oldest = row.versions.first().copied().unwrap_or(1);
    if row.removed.is_some_and(|removed| version >= removed) {
        let supported = format!("the operator was removed in version {}", row.removed.unwrap_or(0));
        return Err(ImportError::OperatorVersion { site: site(), version, supported });
    }
    match row.versions.iter().rev().find(|since| **since <= version) {
        Some(since) => Ok((row, *since)),
        None => {
            let supported = format!("the operator begins at version {oldest}");
            Err(ImportError::OperatorVersion { site: site(), version, supported })
        }
    }
}
