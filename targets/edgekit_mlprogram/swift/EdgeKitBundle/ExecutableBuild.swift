import CoreGraphics

/// A build that is loaded and ready to run.
protocol ExecutableBuild {
    var build: Manifest.Build { get }
    /// What executes it.
    var runtime: String { get }
    /// What it was told, as the end of a sentence; empty where there is nothing to tell.
    var settings: String { get }

    /// Runs a sample.
    ///
    /// - Parameter inputs: In the manifest's order.
    /// - Returns: The elements of each output, row by row, in the manifest's order, and how long the model took.
    func run(_ inputs: [NumPyArray]) async throws -> (outputs: [[Double]], elapsed: Duration)
}

extension ExecutableBuild {
    /// Runs the model, whose only input is a picture.
    ///
    /// - Returns: The elements of each output, row by row, in the manifest's order.
    func run(_ picture: CGImage, by preprocessing: ImagePreprocessing) async throws -> [[Double]] {
        let shape = build.inputs[0].nativeShape.map { $0 ?? 1 }
        return try await run([NumPyArray(try preprocessing.input(for: picture), shape: shape)]).outputs
    }
}

extension Manifest.Feature {
    /// How many elements an array of its shape has; an open dimension counts as one.
    var elementCount: Int { nativeShape.reduce(1) { $0 * ($1 ?? 1) } }

    /// The shape that the model wants of an array: its own, or that of the array where a dimension is open.
    func shape(for array: NumPyArray) -> [Int] {
        nativeShape.contains(nil) ? array.shape : nativeShape.compactMap { $0 }
    }
}
