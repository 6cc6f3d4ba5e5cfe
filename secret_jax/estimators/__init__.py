"""Single trees as scikit-learn estimators: regressor, classifier, presets."""
