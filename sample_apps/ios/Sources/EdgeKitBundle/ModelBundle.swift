import CoreML
import Foundation

/// A bundle that `edgekit package MODEL --target ios18` wrote.
public struct ModelBundle: Sendable {
    public let folder: URL
    public let manifest: Manifest

    public init(folder: URL) throws {
        self.folder = folder
        manifest = try Manifest(folder: folder)
    }

    /// Compiles the bundle's model for this device and loads it.
    ///
    /// Compiling takes a while. An app that starts often keeps what `MLModel.compileModel` returns.
    public func loadModel(computeUnits: MLComputeUnits = .all) async throws -> MLModel {
        let package = folder.appendingPathComponent(manifest.model.main)
        let compiled = try await MLModel.compileModel(at: package)
        let configuration = MLModelConfiguration()
        configuration.computeUnits = computeUnits
        return try await MLModel.load(contentsOf: compiled, configuration: configuration)
    }

    /// The manifest as it stands in its file, which tells this bundle from all others.
    func manifestText() throws -> String {
        try String(contentsOf: folder.appendingPathComponent(Manifest.fileName), encoding: .utf8)
    }

    /// A golden sample's array: one of its inputs, or of the original model's outputs.
    func golden(sample: Int, kind: String, position: Int) throws -> NumPyArray {
        try NumPyArray(contentsOf: folder.appendingPathComponent("golden/\(sample)/\(kind)/\(position).npy"))
    }
}
