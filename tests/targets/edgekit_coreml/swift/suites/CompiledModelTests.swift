import CoreML
import Foundation
import XCTest
@testable import EdgeKitBundle

final class CompiledModelTests: XCTestCase {
    private let files = FileManager.default
    private let scratch = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)

    private func kept(in cache: URL) throws -> [String] {
        try files.contentsOfDirectory(atPath: cache.path).sorted()
    }

    func testCompilesOnceForEachModel() async throws {
        try files.createDirectory(at: scratch, withIntermediateDirectories: true)
        defer { try? files.removeItem(at: scratch) }
        let folder = scratch.appendingPathComponent("bundle")
        try files.copyItem(at: PackagedBundle.folder, to: folder)
        let bundle = try ModelBundle(folder: folder)
        let cache = scratch.appendingPathComponent("cache")

        _ = try await bundle.loadModel(cache: nil)
        XCTAssertFalse(files.fileExists(atPath: cache.path))

        _ = try await bundle.loadModel(cache: cache)
        let first = try kept(in: cache)
        XCTAssertEqual(first.count, 1)
        let mark = cache.appendingPathComponent(first[0]).appendingPathComponent("mark")
        try Data().write(to: mark)
        _ = try await bundle.loadModel(cache: cache)
        XCTAssertEqual(try kept(in: cache), first)
        XCTAssertTrue(files.fileExists(atPath: mark.path), "compiled again")

        try Data().write(to: cache.appendingPathComponent(first[0]).appendingPathComponent("stub.json"))
        _ = try await bundle.loadModel(cache: cache)
        XCTAssertFalse(files.fileExists(atPath: mark.path), "what does not load is still there")

        try Data("changed".utf8).write(to: folder.appendingPathComponent("model.mlpackage/changed"))
        _ = try await bundle.loadModel(cache: cache)
        XCTAssertEqual(try kept(in: cache).count, 2)
        XCTAssertTrue(try kept(in: cache).contains(first[0]))

        let compiled = folder.appendingPathComponent("model.mlmodelc")
        try files.moveItem(at: folder.appendingPathComponent("model.mlpackage"), to: compiled)
        try files.removeItem(at: cache)
        _ = try await bundle.loadModel(cache: cache)
        XCTAssertFalse(files.fileExists(atPath: cache.path))
        XCTAssertThrowsError(try bundle.checkIntegrity()) { error in
            XCTAssertEqual(error as? IntegrityError, IntegrityError(flaws: ["model.mlpackage": .compiled]))
        }
        try bundle.checkIntegrity(trustsCompiled: true)
        XCTAssertThrowsError(try bundle.checkIntegrity(manifestDigest: "0", trustsCompiled: true)) { error in
            XCTAssertEqual(error as? IntegrityError, IntegrityError(flaws: ["manifest.json": .changed]))
        }

        try files.removeItem(at: compiled)
        do {
            _ = try await bundle.loadModel(cache: cache)
            XCTFail("there is no model")
        } catch {
            XCTAssertEqual(error as? ValueError, .noModel(["model.mlpackage", "model.mlmodelc"]))
        }
    }
}
