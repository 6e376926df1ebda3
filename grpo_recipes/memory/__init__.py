"""What a training needs of a GPU, from config.json and the settings alone."""
