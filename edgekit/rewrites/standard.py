"""The rewrites that come with EdgeKit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from edgekit.rewrite import Rewrite, RewriteSet
from edgekit.rewrites import (
    arithmetic,
    bitsandbytes_products,
    block_lookups,
    blocked_scales,
    causal_convolutions,
    control_flow,
    cropping,
    custom_exports,
    distances,
    fourier,
    fused_products,
    group_attention,
    ml_features,
    ml_linear,
    ml_svm,
    ml_trees,
    movement,
    ngrams,
    quantized_operators,
    recurrent,
    recurrent_steps,
    resizing,
    run_time_resizing,
    sampling,
    sequence_lengths,
    transformer_operators,
)
from edgekit.rewrites.definition import Definition


class StandardRewrites(RewriteSet):
    """The families in ``edgekit/rewrites``; an operator's definition in the ONNX standard comes last."""

    contract_version = 1
    name: ClassVar[str] = "edgekit"

    @property
    def rewrites(self) -> Sequence[Rewrite]:
        """One of each."""
        return (
            ml_features.Scaler(),
            ml_features.Normalizer(),
            ml_features.Binarizer(),
            ml_features.Imputer(),
            ml_features.FeatureVectorizer(),
            ml_features.ArrayFeatureExtractor(),
            ml_features.OneHotEncoder(),
            ml_features.LabelEncoder(),
            ml_linear.LinearRegressor(),
            ml_linear.LinearClassifier(),
            ml_trees.TreeEnsembleRegressor(),
            ml_trees.TreeEnsembleClassifier(),
            ml_trees.TreeEnsemble(),
            ml_svm.SVMRegressor(),
            ml_svm.SVMClassifier(),
            control_flow.ScalarCondition(),
            control_flow.BothBranches(),
            control_flow.UnrolledScan(),
            control_flow.UnrolledLoop(),
            control_flow.ExplicitStates(),
            recurrent.SequenceFirst(),
            sequence_lengths.SequencesOfLengths(),
            recurrent_steps.SteppedLayer(),
            arithmetic.FloatRemainder(),
            arithmetic.CumulativeProduct(),
            arithmetic.SignedShift(),
            arithmetic.StableLogSumExp(),
            arithmetic.SummedReduction(),
            arithmetic.GreatestOfNothing(),
            arithmetic.WholeVectorAverage(),
            arithmetic.NoDropout(),
            arithmetic.Determinant(),
            arithmetic.HasElement(),
            movement.WrappedPad(),
            movement.PermutingEinsum(),
            movement.UpwardPool(),
            movement.ScatteredUnpool(),
            movement.ConvolvedColumns(),
            movement.ScatteredTensor(),
            resizing.TabledResize(),
            cropping.GatheredCrop(),
            run_time_resizing.GatheredResize(),
            sampling.GatheredGrid(),
            sampling.GatheredRegions(),
            fourier.WholeTransform(),
            fourier.TwoStepTransform(),
            fourier.TabledTransform(),
            fourier.FramedTransform(),
            ngrams.ComparedNgrams(),
            quantized_operators.QuantizedProduct(),
            quantized_operators.QuantizedConvolution(),
            quantized_operators.QuantizedGemm(),
            quantized_operators.QuantizedElementwise(),
            quantized_operators.ChannelsLastPool(),
            quantized_operators.QuantizedChoice(),
            blocked_scales.WholeBlocks(),
            distances.DistancesByProduct(),
            transformer_operators.SummedEmbeddings(),
            transformer_operators.SelfAttention(),
            group_attention.GroupedAttention(),
            block_lookups.BlockLookup(),
            causal_convolutions.CausalConvolution(),
            bitsandbytes_products.BlockProduct(),
            transformer_operators.RotatedPairs(),
            fused_products.ActivatedGemm(),
            fused_products.TransposedProduct(),
            custom_exports.CofactorInverse(),
            custom_exports.StandardGrid(),
            custom_exports.StandardShape(),
            custom_exports.FirstOccurrences(),
            Definition(),
        )
