// swift-tools-version: 5.9

// EdgeKit's Swift sources and a bundle's own check, with stubs in place of Apple's frameworks.

import PackageDescription

let environment = Context.environment
/// Whether this system has Core AI.
let coreAI: [Target] = environment["STUB_CORE_AI"] == nil ? [] : [.target(name: "CoreAI", path: "Stubs/CoreAI")]
let stubs: [Target.Dependency] = ["CoreML", "CoreVideo", "CoreGraphics", "CryptoKit"] + coreAI.map { .byName(name: $0.name) }
let mainModel = environment["MAIN_MODEL"] ?? "model.mlpackage"
/// The test puts the bundle's module here.
let module = "BundleModel"
/// What the bundle holds for other devices.
let furtherBuild = environment["FURTHER_BUILD"].map { [$0] } ?? []
let further = furtherBuild.map { Resource.copy($0) }
let others: [String] = [
    "Package.swift", "check.py", "check_service.py", "golden_check.py", "graph.json", "instruction_sets.py",
    "measurements.json", "report.md",
]
// Sums of literals inside of calls take Swift's type checker minutes.
var besideModel: [String] = others
besideModel.append(contentsOf: ["golden", "swift/GoldenSamples", "swift/GoldenCheckTests"])
var besideGolden: [String] = others
besideGolden.append(contentsOf: furtherBuild)
besideGolden.append(contentsOf: ["manifest.json", mainModel])
besideGolden.append(contentsOf: ["swift/EdgeKitBundle", "swift/PackagedBundle", "swift/GoldenCheckTests"])
var resources: [Resource] = [.copy("manifest.json"), .copy(mainModel)]
resources.append(contentsOf: further)
let model: Target.Dependency = .byName(name: module)
let golden: Target.Dependency = .byName(name: "\(module)Golden")
let ofTests: [Target.Dependency] = [model] + stubs
let ofCheck: [Target.Dependency] = [model, golden] + stubs
let swift6: [SwiftSetting] = [.unsafeFlags(["-swift-version", "6", "-warnings-as-errors"])]

let package = Package(
    name: "Stubbed",
    targets: coreAI + [
        .target(name: "CoreVideo", path: "Stubs/CoreVideo"),
        .target(name: "CoreGraphics", path: "Stubs/CoreGraphics"),
        .target(name: "CryptoKit", path: "Stubs/CryptoKit"),
        .target(name: "CoreML", dependencies: ["CoreVideo"], path: "Stubs/CoreML"),
        .target(
            name: module,
            dependencies: stubs,
            path: "bundle",
            exclude: besideModel,
            sources: ["swift/EdgeKitBundle", "swift/PackagedBundle"],
            resources: resources,
            swiftSettings: swift6
        ),
        .target(
            name: "\(module)Golden",
            path: "bundle",
            exclude: besideGolden,
            sources: ["swift/GoldenSamples"],
            resources: [.copy("golden")],
            swiftSettings: swift6
        ),
        .testTarget(
            name: "GoldenCheckTests", dependencies: ofCheck,
            path: "bundle/swift/GoldenCheckTests", swiftSettings: swift6),
        .testTarget(
            name: "EdgeKitBundleTests", dependencies: ofTests, path: "EdgeKitBundleTests",
            swiftSettings: swift6),
    ]
)
