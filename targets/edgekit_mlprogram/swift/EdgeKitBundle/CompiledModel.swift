import CoreML
import Foundation

extension ModelBundle {
    /// Compiles the bundle's ML Program for this device and loads it.
    ///
    /// Xcode compiles the model when it builds the app, and then that is loaded. Where the bundle holds the
    /// `.mlpackage` itself, as one that was downloaded does, it is compiled at the first start, which takes a while, and
    /// kept in `cache`: under the sum of its files and the system's version, so that another model and another system
    /// compile anew.
    ///
    /// - Parameter cache: The folder for what was compiled; nil compiles at every start.
    /// - Throws: ``ValueError/noModel(_:)`` where the folder holds neither.
    public func loadModel(
        computeUnits: MLComputeUnits = .all, cache: URL? = ModelBundle.defaultCache
    ) async throws -> MLModel {
        let configuration = MLModelConfiguration()
        configuration.computeUnits = computeUnits
        let main = try coreMLBuild().model.main
        let compiled = folder.appendingPathComponent(Self.compiledPath(of: main))
        if FileManager.default.fileExists(atPath: compiled.path) {
            return try await MLModel.load(contentsOf: compiled, configuration: configuration)
        }
        guard FileManager.default.fileExists(atPath: folder.appendingPathComponent(main).path) else {
            throw ValueError.noModel([main, Self.compiledPath(of: main)])
        }
        guard let kept = try cache.map({ try place(of: main, in: $0) }) else {
            return try await MLModel.load(contentsOf: try await compile(main), configuration: configuration)
        }
        if FileManager.default.fileExists(atPath: kept.path) {
            if let model = try? await MLModel.load(contentsOf: kept, configuration: configuration) { return model }
            try FileManager.default.removeItem(at: kept)  // what does not load is compiled again
        }
        try keep(try await compile(main), at: kept)
        return try await MLModel.load(contentsOf: kept, configuration: configuration)
    }

    /// `EdgeKitBundle` in the app's folder for caches, which the system may empty.
    public static var defaultCache: URL? {
        FileManager.default.urls(for: .cachesDirectory, in: .userDomainMask).first?
            .appendingPathComponent("EdgeKitBundle", isDirectory: true)
    }

    /// Where a model lies that was compiled when the app was built: `model.mlmodelc` for `model.mlpackage`.
    static func compiledPath(of main: String) -> String {
        (main as NSString).deletingPathExtension + ".mlmodelc"
    }

    private func compile(_ main: String) async throws -> URL {
        try await MLModel.compileModel(at: folder.appendingPathComponent(main))
    }

    /// Where in the cache a model belongs.
    private func place(of main: String, in cache: URL) throws -> URL {
        let system = ProcessInfo.processInfo.operatingSystemVersionString
        let sums = try files(of: main).sorted().map { "\($0) \(try digest(of: $0))" }
        let name = Self.digits(of: Data(([system] + sums).joined(separator: "\n").utf8))
        return cache.appendingPathComponent("\(name).mlmodelc", isDirectory: true)
    }

    /// Moves what was compiled to its place, unless another start was there first.
    private func keep(_ compiled: URL, at place: URL) throws {
        try FileManager.default.createDirectory(
            at: place.deletingLastPathComponent(), withIntermediateDirectories: true)
        do {
            try FileManager.default.moveItem(at: compiled, to: place)
        } catch {
            guard FileManager.default.fileExists(atPath: place.path) else { throw error }
        }
    }
}
