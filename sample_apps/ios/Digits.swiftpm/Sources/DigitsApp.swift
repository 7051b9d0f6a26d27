import SwiftUI

@main
struct DigitsApp: App {
    @State private var classifier = DigitClassifier()

    var body: some Scene {
        WindowGroup {
            ContentView(classifier: classifier)
                .task { await classifier.start() }
        }
    }
}
